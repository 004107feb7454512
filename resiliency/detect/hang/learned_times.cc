#include "resiliency/detect/hang/learned_times.h"

#include <algorithm>
#include <cmath>

#include "base/text/text.h"

namespace longhaul {

double LearnedTimes::Section::merged() const {
  if (carried_s <= 0) return longest_s;
  return longest_s <= 0 ? carried_s : 0.5 * (carried_s + longest_s);
}

void LearnedTimes::note(const std::string& section, double seconds) {
  if (!(seconds > 0)) return;
  Section& known = sections_[section];
  known.longest_s = std::max(known.longest_s, seconds);
  ++known.count;
}

void LearnedTimes::begin_launch() {
  for (auto& [name, section] : sections_) section.carried_s = section.merged(), section.longest_s = 0;
}

std::optional<double> LearnedTimes::seconds(const std::string& section) const {
  const auto known = sections_.find(section);
  if (known == sections_.end() || known->second.merged() <= 0) return std::nullopt;
  return known->second.merged();
}

std::int64_t LearnedTimes::count(const std::string& section) const {
  const auto known = sections_.find(section);
  return known == sections_.end() ? 0 : known->second.count;
}

double LearnedTimes::longest_s(const std::string& without) const {
  double longest = 0;
  for (const auto& [name, section] : sections_)
    if (name != without) longest = std::max(longest, section.merged());
  return longest;
}

Value LearnedTimes::to_value() const {
  Value table = Value::make_table();
  for (const auto& [name, section] : sections_) {
    Value one = Value::make_table();
    one.set("seconds", section.merged());
    one.set("count", section.count);
    table.set(name, std::move(one));
  }
  return table;
}

Result<LearnedTimes> LearnedTimes::from_value(const Value& value) {
  if (!value.is_table()) return make_error(ErrorCode::corrupt, "learned times are no table of sections");
  LearnedTimes times;
  for (const auto& [name, one, pos] : value.as_table()) {
    const double seconds = one.get_number("seconds", -1);
    const std::int64_t count = one.get_integer("count", -1);
    if (!std::isfinite(seconds) || seconds <= 0 || count < 0)
      return make_error(ErrorCode::corrupt, format("the learned time of section {} makes no sense", name),
                        "leave the file out: times are learned again");
    times.sections_[name] = {seconds, 0, count};
  }
  return times;
}

}  // namespace longhaul
