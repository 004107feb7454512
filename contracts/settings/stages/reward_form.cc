#include "contracts/settings/stages/reward_form.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/text/text.h"

namespace longhaul {

namespace {

constexpr std::size_t attributes_max = 64;
constexpr const char* name_letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
// Keys of rows that mean something else.
constexpr const char* taken_names[] = {"prompt", "response", "system", "tools", "completion", "label"};

using Problems = std::vector<RewardModelProblem>;

void check_attribute(const RewardAttribute& one, Problems& problems) {
  const std::string at = "attribute." + one.name;
  if (one.name.empty() || one.name.size() > 64 || one.name.find_first_not_of(name_letters) != std::string::npos)
    problems.push_back(
        {"attribute", format("{}: a name of other characters", at), "use up to 64 letters, digits, '-' and '_'"});
  for (const char* taken : taken_names)
    if (one.name == taken)
      problems.push_back({"attribute", format("{}: the key '{}' of rows is no attribute", at, taken), "rename it"});
  if (!(one.min < one.max) || !std::isfinite(one.min) || !std::isfinite(one.max))
    problems.push_back({"attribute", format("{}: min = {:g} is not below max = {:g}", at, one.min, one.max),
                        "they bound the values of rows"});
  if (!std::isfinite(one.weight))
    problems.push_back({"attribute", format("{}: weight = {:g}", at, one.weight), "a number; 0 leaves it out"});
}

void check_attributes(const RewardForm& form, Problems& problems) {
  if (form.attributes.empty())
    problems.push_back({"method", "method = \"attributes\" without an attribute",
                        "name each with a table of its own: [stage.NAME.attribute.helpfulness]"});
  if (form.attributes.size() > attributes_max)
    problems.push_back({"attribute", format("{} attributes", form.attributes.size()),
                        format("at most {} of one model", attributes_max)});
  for (const RewardAttribute& one : form.attributes) check_attribute(one, problems);
  if (!form.attributes.empty() &&
      std::ranges::all_of(form.attributes, [](const RewardAttribute& one) { return one.weight == 0; }))
    problems.push_back({"attribute", "all weights are 0: every answer would be worth the same", "give one a weight"});
}

}  // namespace

std::vector<RewardModelProblem> reward_model_problems(const RewardModelSettings& s) {
  const RewardForm plain;
  Problems problems;
  const auto only_with = [&](const char* method, bool asked, const char* key) {
    if (asked && s.method != method)
      problems.push_back({key, format("{} means nothing with method = \"{}\"", key, s.method),
                          format("leave it out; it goes with {}", method)});
  };
  only_with("bradley-terry", s.center_weight != 0, "center_weight");
  only_with("attributes", !s.attributes.empty(), "attribute");
  only_with("process", s.step_separator != plain.step_separator, "step_separator");
  only_with("process", s.step_aggregate != plain.step_aggregate, "step_aggregate");
  if (s.method == "attributes") check_attributes(s, problems);
  if (s.method == "process" && s.step_separator.empty())
    problems.push_back({"step_separator", "step_separator is empty", "\"\\n\\n\" is usual, and \"\\n\""});
  return problems;
}

Status check_reward_model(const RewardModelSettings& settings) {
  std::vector<std::string> what, hints;
  for (RewardModelProblem& one : reward_model_problems(settings))
    what.push_back(std::move(one.what)), hints.push_back(std::move(one.hint));
  if (what.empty()) return {};
  return make_error(ErrorCode::invalid_input, join(what, "; "), join(hints, "; "));
}

Value reward_form_value(const RewardForm& form) {
  return form.method == RewardForm().method ? Value() : reward_form_fields().to_value(form);
}

Result<RewardForm> reward_form_of(const Value& value, const std::string& file) {
  if (value.is_null()) return RewardForm();
  auto form = reward_form_fields().parse(value, "longhaul_reward_model");
  RewardModelSettings settings;
  if (form.ok()) static_cast<RewardForm&>(settings) = *form;
  if (Status fine = form.ok() ? check_reward_model(settings) : Status(form.error()); !fine.ok())
    return make_error(ErrorCode::corrupt, format("{}: {}", file, fine.error().what),
                      "it is written with the model: copy both again");
  return form;
}

std::int64_t reward_labels(const RewardForm& form) {
  return form.method == "attributes" ? static_cast<std::int64_t>(form.attributes.size()) : 1;
}

double one_reward(const RewardForm& form, std::span<const double> numbers) {
  if (numbers.empty()) return std::numeric_limits<double>::quiet_NaN();
  if (form.method == "attributes") {
    LH_ASSERT(numbers.size() == form.attributes.size(), format("{} numbers of an answer", numbers.size()));
    double sum = 0;
    for (std::size_t i = 0; i < numbers.size(); ++i) sum += form.attributes[i].weight * numbers[i];
    return sum;
  }
  if (form.method != "process") return numbers.back();
  const std::vector<double> right = step_probabilities(numbers);
  if (form.step_aggregate == "last") return right.back();
  double reward = 1;
  for (const double p : right) {
    if (std::isnan(p)) return p;
    reward = form.step_aggregate == "product" ? reward * p : std::min(reward, p);
  }
  return reward;
}

std::vector<double> step_probabilities(std::span<const double> numbers) {
  std::vector<double> right;
  for (const double x : numbers) right.push_back(x > 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x)));
  return right;
}

}  // namespace longhaul
