#include "contracts/settings/stages/reward_form.h"

#include <doctest/doctest.h>

#include <cmath>

#include "base/text/text.h"

using namespace longhaul;

namespace {

RewardModelSettings attributes_settings() {
  RewardModelSettings settings;
  settings.method = "attributes";
  settings.attributes = {{"helpfulness", 0.5, 0, 4}, {"verbosity", -0.25, 0, 4}};
  return settings;
}
std::string problems_of(const RewardModelSettings& settings) {
  const Status status = check_reward_model(settings);
  return status.ok() ? "" : status.error().what;
}
bool names(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("one reward: the number, the weighted sum of attributes, or what the steps are worth") {
  const double numbers[] = {2, -0.5, 1}, none[] = {1, NAN}, sure[] = {800, -800};
  RewardForm form;
  CHECK(one_reward(form, numbers) == 1);
  CHECK(std::isnan(one_reward(form, {})));
  const RewardModelSettings attributes = attributes_settings();
  CHECK(one_reward(attributes, std::span(numbers).first(2)) == doctest::Approx(0.5 * 2 + 0.25 * 0.5).epsilon(1e-15));
  form.method = "process";
  CHECK(one_reward(form, numbers) == doctest::Approx(0.3775406687981454).epsilon(1e-14));
  form.step_aggregate = "product";
  CHECK(one_reward(form, numbers) == doctest::Approx(0.24310382032676786).epsilon(1e-14));
  CHECK(std::isnan(one_reward(form, none)));
  CHECK(one_reward(form, sure) == 0);
  form.step_aggregate = "last";
  CHECK(one_reward(form, numbers) == doctest::Approx(0.7310585786300049).epsilon(1e-14));
  form.step_aggregate = "min";
  CHECK(std::isnan(one_reward(form, none)));
}

TEST_CASE("what a reward model's numbers mean is written and read again; other texts are refused") {
  CHECK(reward_form_value(RewardForm()).is_null());
  CHECK(reward_form_of(Value(), "c").value() == RewardForm());
  const RewardModelSettings attributes = attributes_settings();
  CHECK(reward_labels(attributes) == 2);
  CHECK(reward_form_of(reward_form_value(attributes), "c").value() == static_cast<const RewardForm&>(attributes));
  RewardForm process;
  process.method = "process", process.step_separator = " ->", process.step_aggregate = "product";
  CHECK(reward_labels(process) == 1);
  CHECK(reward_form_of(reward_form_value(process), "c").value() == process);
  Value broken = reward_form_value(process);
  broken.set("step_aggregate", "mean");
  CHECK(reward_form_of(broken, "folder/config.json").error().code == ErrorCode::corrupt);
  broken = reward_form_value(process), broken.set("method", "attributes");
  CHECK(names(reward_form_of(broken, "folder/config.json").error().what, "folder/config.json"));
}

TEST_CASE("settings of reward models that mean nothing together are refused, all of them at once") {
  CHECK(problems_of(RewardModelSettings()).empty());
  CHECK(problems_of(attributes_settings()).empty());
  RewardModelSettings settings = attributes_settings();
  settings.method = "process", settings.center_weight = 0.01;
  CHECK(names(problems_of(settings), "attribute means nothing with method = \"process\""));
  CHECK(names(problems_of(settings), "center_weight means nothing"));
  settings = RewardModelSettings(), settings.step_separator = "\n", settings.step_aggregate = "last";
  CHECK(names(problems_of(settings), "step_separator means nothing with method = \"bradley-terry\""));
  CHECK(names(problems_of(settings), "step_aggregate means nothing"));
  settings = RewardModelSettings(), settings.method = "attributes";
  CHECK(names(problems_of(settings), "without an attribute"));
  settings.attributes = {{"prompt", 1, 0, 4}, {"a b", 1, 4, 4}};
  const std::string text = problems_of(settings);
  for (const char* part :
       {"'prompt' of rows is no attribute", "a name of other characters", "min = 4 is not below max"})
    CHECK_MESSAGE(names(text, part), text);
  settings.attributes = {{"help", 0, 0, 4}};
  CHECK(names(problems_of(settings), "all weights are 0"));
  settings = RewardModelSettings(), settings.method = "process", settings.step_separator = "";
  CHECK(names(problems_of(settings), "step_separator is empty"));
}
