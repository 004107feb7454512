#include "resiliency/detect/hang/hang_timeouts.h"

#include <cmath>

#include "base/text/text.h"

namespace longhaul {

const SectionTimeout* HangTimeouts::of(const std::string& section) const {
  for (const SectionTimeout& one : sections)
    if (one.section == section) return &one;
  return nullptr;
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
  return errors;
}

}  // namespace longhaul
