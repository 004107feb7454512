#include "resiliency/detect/hang_timeouts.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"

namespace longhaul {

const SectionTimeout* HangTimeouts::of(const std::string& section) const {
  for (const SectionTimeout& one : sections)
    if (one.section == section) return &one;
  return nullptr;
}

TimeoutHierarchy hierarchy_of(const HangTimeouts& timeouts) {
  TimeoutHierarchy all;
  all.suspect_s = timeouts.suspect_s > 0 ? timeouts.suspect_s : 2;
  all.act_s = timeouts.act_s > 0 ? timeouts.act_s : timeouts.floor_s;
  all.startup_s = timeouts.startup_s;
  return all;
}

namespace {

struct TimeoutRule {
  const char* shorter_name;
  double shorter;
  const char* longer_name;
  double longer;
  double times;  // longer >= times * shorter
  const char* why;
};

}  // namespace

std::vector<Error> judge_timeouts(const TimeoutHierarchy& t) {
  // A sum on the shorter side is one wait after the other.
  const TimeoutRule rules[] = {
      {"the interval of beats", t.beat_interval_s, "suspect", t.suspect_s, 3,
       "one late look at a page would be taken for a hang"},
      {"the interval of reports", t.report_interval_s, "the silence of a host", t.host_silent_s, 3,
       "one late report would be taken for a lost host"},
      {"the interval of reports", t.report_interval_s, "suspect", t.suspect_s, 2,
       "one late report would be taken for a hang"},
      {"suspect", t.suspect_s, "act", t.act_s, 1, "a launch would be ended before the culprit is named"},
      {"the silence of a host", t.host_silent_s, "act", t.act_s, 1,
       "a launch would be ended before the lost host is named"},
      {"the silence of the fabric", t.fabric_silence_s, "act", t.act_s, 1,
       "a fabric that comes back would find its launch ended"},
      {"the silence of the fabric", t.fabric_silence_s, "the transport's timeout", t.transport_s, 1,
       "the transport would give up on a fabric that comes back"},
      {"the silence of the fabric", t.fabric_silence_s, "the deadline of a collective", t.collective_s, 1,
       "ranks would give up on a fabric that comes back"},
      {"act", t.act_s, "the deadline of a collective", t.collective_s, 1,
       "ranks would end by themselves before the culprit is named"},
      {"act", t.act_s, "the transport's timeout", t.transport_s, 1,
       "the transport would break the ranks' connections before the culprit is named"},
      {"the deadline of a collective", t.collective_s, "launch start-up", t.startup_s, 1,
       "a launch would be ended before a rank can say whom it waited for"},
      {"act", t.act_s, "launch start-up", t.startup_s, 1, "a launch would have less time to start than for a step"},
      {"stopping a launch", t.stop_s, "the job's grace", t.grace_s, 1, "the job would end before its ranks have"},
      {"a final checkpoint and stopping", t.final_checkpoint_s > 0 ? t.final_checkpoint_s + t.stop_s : 0,
       "the job's grace", t.grace_s, 1, "the last checkpoint would be lost"},
      {"launch start-up and the job's grace", t.startup_s + t.grace_s, "the wall time", t.wall_s, 1,
       "a job could end without a step"},
  };
  std::vector<Error> errors;
  for (const TimeoutRule& rule : rules) {
    if (rule.shorter <= 0 || rule.longer <= 0) continue;
    const double least = rule.times * rule.shorter;
    if (rule.longer >= least) continue;
    const std::string times = rule.times > 1 ? format("{:g} times ", rule.times) : std::string();
    errors.push_back(make_error(ErrorCode::invalid_input,
                                format("{} ({:g} s) is shorter than {}{} ({:g} s): {}", rule.longer_name, rule.longer,
                                       times, rule.shorter_name, rule.shorter, rule.why),
                                format("raise {} to {:g} s or more, or lower {} to {:g} s", rule.longer_name, least,
                                       rule.shorter_name, rule.longer / rule.times)));
  }
  return errors;
}

std::vector<Error> judge_timeouts(const HangTimeouts& t) {
  std::vector<Error> errors;
  const auto wrong = [&](const std::string& what, const std::string& hint) {
    errors.push_back(make_error(ErrorCode::invalid_input, what, hint));
  };
  const auto must_not_be_negative = [&](const std::string& name, double value) {
    if (!std::isfinite(value) || value < 0)
      wrong(format("{} = {:g} s is no time", name, value), "give seconds, or 0 to leave it to the rules");
  };
  must_not_be_negative("suspect", t.suspect_s);
  must_not_be_negative("act", t.act_s);
  must_not_be_negative("the floor of learned timeouts", t.floor_s);
  if (!(t.startup_s > 0)) wrong(format("launch start-up = {:g} s is no time", t.startup_s), "give it 600 s");
  if (!(t.factor >= 1))
    wrong(format("factor = {:g}: a learned timeout would be shorter than what was seen", t.factor),
          "give it 2 or more; 5 is usual");
  if (t.warm_up_steps < 0) wrong(format("{} steps of warm-up", t.warm_up_steps), "give it 5");
  for (std::size_t i = 0; i < t.sections.size(); ++i) {
    const SectionTimeout& one = t.sections[i];
    must_not_be_negative(format("suspect of section {}", one.section), one.suspect_s);
    must_not_be_negative(format("act of section {}", one.section), one.act_s);
    if (one.suspect_s > 0 && one.act_s > 0 && one.suspect_s > one.act_s)
      wrong(format("section {}: act ({:g} s) is shorter than suspect ({:g} s)", one.section, one.act_s, one.suspect_s),
            "raise act, or lower suspect");
    for (std::size_t j = 0; j < i; ++j)
      if (t.sections[j].section == one.section)
        wrong(format("section {} has timeouts twice", one.section), "keep one of them");
  }
  const std::vector<Error> hierarchy = judge_timeouts(hierarchy_of(t));
  errors.insert(errors.end(), hierarchy.begin(), hierarchy.end());
  return errors;
}

}  // namespace longhaul
