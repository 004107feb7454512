#include "resiliency/timeout_hierarchy.h"

#include <cmath>

#include "base/text.h"

namespace longhaul {
namespace {

struct NamedTimeout {
  const char* name;
  const Timeout* timeout;  // null: nothing is added
};
struct TimeoutRule {
  NamedTimeout shorter, further;  // a sum is one wait after the other
  NamedTimeout longer;
  double times;  // longer >= times * (shorter + further)
  const char* why;
};

std::string setting_or_name(const NamedTimeout& one) {
  return one.timeout->setting.empty() ? one.name : one.timeout->setting;
}

// Only what a setting can change is advice.
std::string remedy(const TimeoutRule& rule, double least) {
  const Timeout& longer = *rule.longer.timeout;
  std::string advice;
  if (!longer.setting.empty()) advice = format("raise {} to {:g} s or more", longer.setting, least);
  for (const NamedTimeout& one : {rule.shorter, rule.further}) {
    if (!one.timeout || one.timeout->setting.empty()) continue;
    const double others =
        rule.further.timeout ? rule.shorter.timeout->seconds + rule.further.timeout->seconds - one.timeout->seconds : 0;
    const double most = longer.seconds / rule.times - others;
    if (most <= 0) continue;
    advice += format("{}lower {} to {:g} s", advice.empty() ? "" : ", or ", setting_or_name(one), most);
  }
  return advice.empty() ? "no setting of a workflow changes either" : advice;
}

TimeoutContradiction contradiction_of(const TimeoutRule& rule, double sum) {
  const Timeout& longer = *rule.longer.timeout;
  const double least = rule.times * sum;
  std::string shorter = rule.shorter.name;
  if (rule.further.timeout) shorter += format(" and {}", rule.further.name);
  const std::string times = rule.times > 1 ? format("{:g} times ", rule.times) : std::string();
  TimeoutContradiction found;
  found.error = make_error(ErrorCode::invalid_input,
                           format("{} ({:g} s) is shorter than {}{} ({:g} s): {}", rule.longer.name, longer.seconds,
                                  times, shorter, sum, rule.why),
                           remedy(rule, least));
  found.rule = format("{} < {}", rule.longer.name, shorter);
  for (const NamedTimeout& one : {rule.longer, rule.shorter, rule.further}) {
    if (!one.timeout) continue;
    found.mendable |= !one.timeout->setting.empty();
    if (!found.error.where && one.timeout->where.line > 0) found.error.where = one.timeout->where;
  }
  return found;
}

}  // namespace

std::vector<TimeoutContradiction> judge_timeouts(const TimeoutHierarchy& t) {
  const NamedTimeout none{"", nullptr};
  const NamedTimeout beats{"the interval of beats", &t.beat_interval};
  const NamedTimeout reports{"the interval of reports", &t.report_interval};
  const NamedTimeout silence{"the silence of a host", &t.host_silent};
  const NamedTimeout suspect{"suspect", &t.suspect};
  const NamedTimeout act{"act", &t.act};
  const NamedTimeout longest_act =
      t.longest_act.seconds > t.act.seconds ? NamedTimeout{"the longest act that was learned", &t.longest_act} : act;
  const NamedTimeout fabric{"the silence of the fabric", &t.fabric_silence};
  const NamedTimeout transport{"the transport's timeout", &t.transport};
  const NamedTimeout collective{"the deadline of a collective", &t.collective};
  const NamedTimeout startup{"launch start-up", &t.startup};
  const NamedTimeout stop{"stopping a launch", &t.stop};
  const NamedTimeout last_save{"a final checkpoint", &t.final_checkpoint};
  const NamedTimeout grace{"the job's grace", &t.grace};
  const NamedTimeout wall{"the wall time", &t.wall};
  const Timeout no_demand;
  const NamedTimeout asked_startup{"launch start-up", t.startup_is_default ? &no_demand : &t.startup};
  const NamedTimeout kill_wait{"KillWait of Slurm", &t.kill_wait};
  const NamedTimeout slurmd{"SlurmdTimeout of Slurm", &t.slurmd_timeout};
  const TimeoutRule rules[] = {
      {beats, none, suspect, 3, "one late look at a page would be taken for a hang"},
      {reports, none, silence, 3, "one late report would be taken for a lost host"},
      {reports, none, suspect, 2, "one late report would be taken for a hang"},
      {suspect, none, act, 1, "a launch would be ended before the culprit is named"},
      {silence, none, act, 1, "a launch would be ended before the lost host is named"},
      {silence, none, slurmd, 1, "Slurm would end the job before the lost host is named"},
      {fabric, none, act, 1, "a fabric that comes back would find its launch ended"},
      {fabric, none, transport, 1, "the transport would give up on a fabric that comes back"},
      {fabric, none, collective, 1, "ranks would give up on a fabric that comes back"},
      {longest_act, none, collective, 1, "ranks would end by themselves before the culprit is named"},
      {longest_act, none, transport, 1, "the transport would break the ranks' connections before the culprit is named"},
      {collective, none, startup, 1, "a launch would be ended before a rank can say whom it waited for"},
      {longest_act, none, startup, 1, "a launch would have less time to start than for a step"},
      {stop, none, grace, 1, "the job would end before its ranks have"},
      {stop, none, kill_wait, 1, "a cancelled job would end before its ranks have"},
      {last_save, stop, grace, 1, "the last checkpoint would be lost"},
      {last_save, stop, wall, 1, "the job could not save what it has done"},
      {asked_startup, grace, wall, 1, "a job could end without a step"},
  };
  std::vector<TimeoutContradiction> found;
  for (const TimeoutRule& rule : rules) {
    if (rule.shorter.timeout->seconds <= 0 || rule.longer.timeout->seconds <= 0) continue;
    const double sum = rule.shorter.timeout->seconds + (rule.further.timeout ? rule.further.timeout->seconds : 0);
    if (rule.longer.timeout->seconds < rule.times * sum) found.push_back(contradiction_of(rule, sum));
  }
  return found;
}

double infiniband_timeout_s(int timeout, int retries) {
  return timeout <= 0 ? 0 : 4.096e-6 * std::exp2(timeout) * retries;
}

}  // namespace longhaul
