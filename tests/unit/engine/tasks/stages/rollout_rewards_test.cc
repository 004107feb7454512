// What a training makes of rewards and of how answers were drawn, as a stage: endpoints, long answers, importance.
#include <doctest/doctest.h>

#include "tests/unit/engine/tasks/rewards/reward_server.h"
#include "tests/unit/engine/tasks/stages/rollout_folder.h"

namespace longhaul {

namespace {

// Right answers and wrong ones in turn; the first has no reward.
HttpResponse in_turn(const HttpRequest& request) {
  const std::size_t answers = parse_json(request.body)->find("items")->size();
  std::string rewards = "null";
  for (std::size_t i = 1; i < answers; ++i) rewards += i % 2 == 1 ? ", 1" : ", 0";
  return endpoint_says("{\"rewards\": [" + rewards + "]}");
}

Value endpoint_reward(const RewardServer& server) {
  Value reward = Value::make_table();
  reward.set("kind", "http"), reward.set("url", server.url());
  return reward;
}

}  // namespace

TEST_CASE("learning from rewards: an endpoint judges the answers of a step, and tests that cannot be run are refused") {
  const RolloutFolder folder;
  RewardServer server([](std::size_t, const HttpRequest& request) { return in_turn(request); });
  Task task = folder.grpo();
  task.settings.set("steps", 1), task.inputs.pop_back(), task.settings.set("reward", endpoint_reward(server));
  folder.run_well(task, "judged");
  CHECK(server.requests().size() == 1);
  const Value step = folder.metrics("judged").at(0);
  CHECK(step.get_number("reward") == 0.5);
  CHECK(step.get_number("reward_faults") == 1);
  CHECK(step.get_number("grad_norm") > 0);

  Value reward = Value::make_table();
  reward.set("kind", "tests"), reward.set("python", "/no/python");
  task.settings.set("reward", reward);
  const std::string refused = folder.refusal(task);
  CHECK(refused.find("reward.kind = \"tests\"") != std::string::npos);
  CHECK(refused.find("/no/python") != std::string::npos);
}

TEST_CASE("learning from rewards: long answers cost something, or are not learnt from where they were cut") {
  const RolloutFolder folder;
  Task task = folder.grpo();
  task.settings.set("steps", 1), task.settings.set("beta", 0), task.inputs.pop_back();
  task.settings.find("reward")->set("pattern", "^");  // all answers are right: only their lengths differ
  folder.run_well(task, "equal");
  CHECK(folder.metrics("equal").at(0).get_number("grad_norm") == 0);
  Value& rollout = *task.settings.find("rollout");
  rollout.set("overlong", "shape"), rollout.set("overlong_tokens", 12);  // from the first token on
  folder.run_well(task, "shaped");
  const Value shaped = folder.metrics("shaped").at(0);
  CHECK(shaped.get_number("overlong_penalty") == doctest::Approx(shaped.get_number("answer_tokens") / 12));
  CHECK(shaped.get_number("answers_shaped") == 1);
  CHECK(shaped.get_number("reward") == 1);
  CHECK(shaped.get_number("accuracy") == 1);
  CHECK(shaped.get_number("reward_deviation") == 0);
  CHECK(shaped.get_number("equal_groups") < 1);
  CHECK(shaped.get_number("grad_norm") > 0);

  RewardServer server([](std::size_t, const HttpRequest& request) { return in_turn(request); });
  task = folder.grpo();
  task.settings.set("steps", 1), task.inputs.pop_back(), task.settings.set("reward", endpoint_reward(server));
  task.settings.find("rollout")->set("max_new_tokens", 3);  // all answers are cut
  folder.run_well(task, "cut");
  CHECK(folder.metrics("cut").at(0).get_number("grad_norm") > 1e-4);
  task.settings.find("rollout")->set("overlong", "filter");
  for (const char* average : {"answer", "token"}) {
    task.settings.find("rollout")->set("average", average);
    folder.run_well(task, average);
    const Value filtered = folder.metrics(average).at(0);
    CHECK(filtered.get_number("answers_cut") == 1);
    CHECK(filtered.get_number("reward") == 0.5);
    CHECK(filtered.get_number("loss") == 0);
    CHECK(filtered.get_number("grad_norm") == 0);
  }
}

TEST_CASE("learning from rewards: a bound of importance changes nothing but where other weights drew the answers") {
  const RolloutFolder folder;
  Task task = folder.grpo();
  task.settings.set("steps", 1);
  folder.run_well(task, "plain");
  task.settings.find("rollout")->set("importance_cap", 2);
  folder.run_well(task, "weighed");
  const Value plain = folder.metrics("plain").at(0), weighed = folder.metrics("weighed").at(0);
  for (const char* name : {"loss", "grad_norm", "reward", "kl", "clip_fraction"}) {
    CAPTURE(name);
    CHECK(weighed.get_number(name) == doctest::Approx(plain.get_number(name)).epsilon(1e-4).scale(1));
  }
  CHECK(weighed.get_number("importance_ratio") == doctest::Approx(1).epsilon(1e-4));
  CHECK(weighed.get_number("importance_ratio_max") == doctest::Approx(1).epsilon(1e-3));
  for (const char* name : {"importance_ratio", "importance_ratio_max"}) CHECK_FALSE(plain.find(name));

  task.settings.set("steps", 3), task.settings.find("rollout")->set("ahead", true);  // by weights of a step before
  folder.run_well(task, "ahead");
  CHECK(folder.metrics("ahead").at(2).get_number("importance_ratio_max") > 1.001);
}

}  // namespace longhaul
