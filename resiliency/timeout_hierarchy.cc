#include "resiliency/timeout_hierarchy.h"

#include <algorithm>
#include <cmath>

#include "base/text/text.h"

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

// What each is called where it contradicts another one.
struct HierarchyNames {
  explicit HierarchyNames(const TimeoutHierarchy& t)
      : beats{"the interval of beats", &t.beat_interval},
        reports{"the interval of reports", &t.report_interval},
        ping{"the interval of a lead's messages", &t.ping_interval},
        question{"a lead's question to the scheduler", &t.lead_question},
        lead_silent{"the silence of a lead", &t.lead_silent},
        others_still{"the standstill beside a lost host", &t.others_still},
        silence{"the silence of a host", &t.host_silent},
        suspect{"suspect", &t.suspect},
        act{"act", &t.act},
        longest_act{"the longest act that was learned", &t.longest_act},
        fabric{"the silence of the fabric", &t.fabric_silence},
        transport{"the transport's timeout", &t.transport},
        collective{"the deadline of a collective", &t.collective},
        failover{"the failover of a file system", &t.storage_failover},
        write_still{"a save without a byte", &t.write_still},
        startup{"launch start-up", &t.startup},
        stop{"stopping a launch", &t.stop},
        teardown{"the longest that killed ranks took to be gone", &t.longest_teardown},
        ranks_gone{"the time that killed ranks have to be gone", &t.ranks_gone},
        last_save{"a final checkpoint", &t.final_checkpoint},
        grace{"the job's grace", &t.grace},
        wall{"the wall time", &t.wall},
        kill_wait{"KillWait of Slurm", &t.kill_wait},
        slurmd{"SlurmdTimeout of Slurm", &t.slurmd_timeout},
        submission{"a submission", &t.submission},
        settle{"the time until a lost submission is known", &t.settle},
        driver{"the silence of a driver", &t.driver_silent} {}

  NamedTimeout beats, reports, ping, question, lead_silent, others_still, silence, suspect, act, longest_act, fabric,
      transport, collective, failover, write_still, startup, stop, teardown, ranks_gone, last_save, grace, wall,
      kill_wait, slurmd, submission, settle, driver;

  std::vector<NamedTimeout> all() const {
    return {beats,       reports,   ping,      question,   lead_silent, others_still, silence,    suspect, act,
            longest_act, fabric,    transport, collective, failover,    write_still,  startup,    stop,    teardown,
            ranks_gone,  last_save, grace,     wall,       kill_wait,   slurmd,       submission, settle,  driver};
  }
};

}  // namespace

std::vector<NamedDeadline> deadlines_in_order(const TimeoutHierarchy& timeouts) {
  std::vector<NamedDeadline> known;
  for (const NamedTimeout& one : HierarchyNames(timeouts).all())
    if (one.timeout->seconds > 0) known.push_back({one.name, *one.timeout});
  std::stable_sort(known.begin(), known.end(), [](const NamedDeadline& a, const NamedDeadline& b) {
    return a.timeout.seconds < b.timeout.seconds;
  });
  return known;
}

std::vector<TimeoutContradiction> judge_timeouts(const TimeoutHierarchy& t) {
  const HierarchyNames n(t);
  const NamedTimeout none{"", nullptr};
  const NamedTimeout longest_act = t.longest_act.seconds > t.act.seconds ? n.longest_act : n.act;
  const Timeout no_demand;
  const NamedTimeout asked_startup{n.startup.name, t.startup_is_default ? &no_demand : &t.startup};
  // From short to long.
  const TimeoutRule rules[] = {
      {n.beats, none, n.suspect, 3, "one late look at a page would be taken for a hang"},
      {n.reports, none, n.silence, 3, "one late report would be taken for a lost host"},
      {n.reports, none, n.suspect, 2, "one late report would be taken for a hang"},
      {n.reports, none, n.ranks_gone, 3, "one late report would be taken for ranks that do not end"},
      {n.others_still, none, n.silence, 1, "a host would be lost before anybody is seen to wait for it"},
      {n.question, n.ping, n.lead_silent, 1, "agents would turn away from a lead that asks the scheduler"},
      {n.suspect, none, n.act, 1, "a launch would be ended before the culprit is named"},
      {n.silence, none, n.act, 1, "a launch would be ended before the lost host is named"},
      {n.silence, none, n.slurmd, 1, "Slurm would end the job before the lost host is named"},
      {n.submission, none, n.settle, 1, "a second job could be submitted while the first is on its way"},
      {n.submission, none, n.driver, 1, "a driver that submits a job would be taken for dead"},
      {n.teardown, none, n.ranks_gone, 1, "nodes would be left whose ranks only take their time to end"},
      {n.fabric, none, n.act, 1, "a fabric that comes back would find its launch ended"},
      {n.fabric, none, n.transport, 1, "the transport would give up on a fabric that comes back"},
      {n.fabric, none, n.collective, 1, "ranks would give up on a fabric that comes back"},
      {n.failover, none, n.write_still, 1, "saves would be given up on a file system that comes back"},
      {longest_act, none, n.collective, 1, "ranks would end by themselves before the culprit is named"},
      {longest_act, none, n.transport, 1,
       "the transport would break the ranks' connections before the culprit is named"},
      {n.collective, none, n.startup, 1, "a launch would be ended before a rank can say whom it waited for"},
      {longest_act, none, n.startup, 1, "a launch would have less time to start than for a step"},
      {n.stop, none, n.grace, 1, "the job would end before its ranks have"},
      {n.stop, none, n.kill_wait, 1, "a cancelled job would end before its ranks have"},
      {n.last_save, n.stop, n.grace, 1, "the last checkpoint would be lost"},
      {n.last_save, n.stop, n.wall, 1, "the job could not save what it has done"},
      {asked_startup, n.grace, n.wall, 1, "a job could end without a step"},
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
