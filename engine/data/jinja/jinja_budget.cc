#include "engine/data/jinja/jinja_budget.h"

#include "base/text/text.h"

namespace longhaul {
namespace {

constexpr int depth_max = 800, value_depth_max = 600;

}  // namespace

Status JinjaBudget::spend(std::uint64_t steps) {
  steps_ += steps;
  if (steps_ <= limits_.steps) return {};
  return jinja_error(format("the template has taken {} steps and has not ended", limits_.steps),
                     "does one of its loops never end?");
}

Status JinjaBudget::check(const JinjaValue& value) {
  if (value.depth() > value_depth_max) return jinja_error(format("values nested more than {} deep", value_depth_max));
  LH_CHECK(check_text_size(value.weight()));
  return spend_bytes(value.weight());
}

Status JinjaBudget::check_output(std::uint64_t bytes) const {
  if (bytes > limits_.output_bytes)
    return jinja_error(
        format("the template writes more than {}", human_bytes(static_cast<double>(limits_.output_bytes))),
        "does one of its loops never end?");
  return {};
}

bool JinjaBudget::is_too_deep() const {
  return depth_ > depth_max;
}

}  // namespace longhaul
