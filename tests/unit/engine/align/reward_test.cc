#include "engine/align/reward.h"

#include <doctest/doctest.h>

#include "base/value/json.h"

using namespace longhaul;

namespace {

std::vector<Reward> rewards_of(const RewardSettings& settings, const std::vector<RewardQuestion>& questions) {
  const auto reward = RewardFunction::create(settings);
  REQUIRE_MESSAGE(reward.ok(), reward.error().message());
  return reward->judge(questions);
}

double reward_of(const RewardSettings& settings, const std::string& completion, const Value& answer) {
  const std::vector<Reward> rewards = rewards_of(settings, {{"?", completion, answer}});
  REQUIRE(rewards.size() == 1);
  REQUIRE_MESSAGE(rewards[0].value, rewards[0].problem);
  return *rewards[0].value;
}

RewardSettings kind_of_reward(const char* kind) {
  RewardSettings s;
  s.kind = kind;
  return s;
}

RewardSettings shell(const char* script) {
  RewardSettings s = kind_of_reward("command");
  s.command = {"sh", "-c", script};
  return s;
}

}  // namespace

TEST_CASE("rewards: the answer as it stands, without white space around it") {
  const RewardSettings exact = kind_of_reward("exact");
  CHECK(reward_of(exact, " 42\n", "42") == 1);
  CHECK(reward_of(exact, "42", 42) == 1);
  CHECK(reward_of(exact, "4 2", "42") == 0);
  CHECK(reward_of(exact, "", "") == 1);
}

TEST_CASE("rewards: the last number of the answer") {
  const RewardSettings number = kind_of_reward("number");
  CHECK(reward_of(number, "3 and 4 make 7.", "7") == 1);
  CHECK(reward_of(number, "It is 1,234.50!", 1234.5) == 1);
  CHECK(reward_of(number, "-3", "-3.0") == 1);
  CHECK(reward_of(number, "seven", 7) == 0);
  CHECK(reward_of(number, "7 or 8", 7) == 0);
  CHECK(reward_of(number, "9", "#### 9") == 1);
  CHECK(!rewards_of(number, {{"?", "7", "no number"}})[0].value);
  CHECK(last_number("version 3.10.2") == 2.0);
  CHECK(!last_number(""));
}

TEST_CASE("rewards: what a pattern finds, within bounds") {
  RewardSettings regex = kind_of_reward("regex");
  regex.pattern = "<answer>(.*?)</answer>";
  CHECK(reward_of(regex, "so <answer> 12 </answer>", "12") == 1);
  CHECK(reward_of(regex, "so <answer>13</answer>", "12") == 0);
  CHECK(reward_of(regex, "12", "12") == 0);
  regex.pattern = "^[A-Z][a-z]+\\.$";
  CHECK(reward_of(regex, "Yes.", Value()) == 1);
  CHECK(reward_of(regex, "yes", Value()) == 0);
  CHECK(reward_of(regex, "\xff\xfe", Value()) == 0);
  regex.pattern = "(a+)+$";
  CHECK(!rewards_of(regex, {{"?", std::string(40, 'a') + "b", "a"}})[0].value);
  regex.pattern = "(unclosed";
  const auto refused = RewardFunction::create(regex);
  REQUIRE(!refused.ok());
  CHECK(refused.error().message().find("reward.pattern") != std::string::npos);
}

TEST_CASE("rewards: JSON, and the same value as the row's") {
  const RewardSettings json = kind_of_reward("json");
  CHECK(reward_of(json, "{\"a\": [1, 2]}", Value()) == 1);
  CHECK(reward_of(json, "{\"a\": [1, 2", Value()) == 0);
  CHECK(reward_of(json, "{\"a\": [1,2]}", *parse_json("{\"a\": [1, 2]}")) == 1);
  CHECK(reward_of(json, "{\"a\": [2,1]}", "{\"a\": [1, 2]}") == 0);
}

TEST_CASE("rewards: JSON that satisfies a schema, whatever the row has, and a schema that is none is refused") {
  RewardSettings json = kind_of_reward("json");
  json.schema = R"({"type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}}})";
  if (const auto made = RewardFunction::create(json); !made.ok() && made.error().code == ErrorCode::unsupported) {
    MESSAGE("skipped: " << made.error().message());
    return;
  }
  CHECK(reward_of(json, " {\"a\": 1}\n", Value()) == 1);
  CHECK(reward_of(json, "{\"a\": 1}", "{\"a\": 2}") == 1);
  CHECK(reward_of(json, "{\"a\": \"1\"}", Value()) == 0);
  CHECK(reward_of(json, "{\"a\": 1", Value()) == 0);
  CHECK(reward_of(json, "Here: {\"a\": 1}", Value()) == 0);
  json.schema = R"({"type": "object", "patternProperties": {}})";
  const auto refused = RewardFunction::create(json);
  REQUIRE(!refused.ok());
  CHECK(refused.error().message().find("reward.schema") != std::string::npos);
  CHECK(refused.error().message().find("patternProperties") != std::string::npos);
}

TEST_CASE("rewards: a backend judges all answers of its kind at once, and tests need the answers of rows") {
  struct Lengths final : RewardBackend {
    std::vector<Reward> judge(std::span<const RewardQuestion> questions) const override {
      std::vector<Reward> rewards;
      for (const RewardQuestion& q : questions) rewards.push_back({static_cast<double>(q.completion.size()), ""});
      return rewards;
    }
  };
  RewardSettings http = kind_of_reward("http");
  http.url = "http://localhost/";
  const auto made = RewardFunction::create(http, std::make_shared<Lengths>());
  REQUIRE(made.ok());
  const std::vector<Reward> rewards = made->judge(std::vector<RewardQuestion>{{"p", "ab", 1}, {"p", "", 2}});
  REQUIRE(rewards.size() == 2);
  CHECK(rewards[0].value == 2);
  CHECK(rewards[1].value == 0);
  CHECK(!made->needs_answer());
  CHECK(RewardFunction::create(kind_of_reward("tests"), std::make_shared<Lengths>())->needs_answer());
}

TEST_CASE("rewards: a command prints a number for each answer; what is none is a fault of that answer alone") {
  const std::vector<RewardQuestion> three = {{"p", "a", 1}, {"p", "b", 2}, {"p", "c", 3}};
  std::vector<Reward> rewards = rewards_of(
      shell("while read -r line; do case $line in *'\"b\"'*) echo perhaps;; *) echo 0.5;; esac; done"), three);
  CHECK(rewards[0].value == 0.5);
  CHECK(!rewards[1].value);
  CHECK(rewards[1].problem.find("'perhaps'") != std::string::npos);
  CHECK(rewards[2].value == 0.5);
  rewards = rewards_of(shell("echo nan; echo inf; echo +3e-1"), three);
  CHECK(!rewards[0].value);
  CHECK(!rewards[1].value);
  CHECK(rewards[2].value == 0.3);
  rewards = rewards_of(shell("echo 1"), three);
  CHECK(rewards[0].value == 1);
  CHECK(rewards[1].problem == "the command printed nothing for it");
  for (const Reward& one : rewards_of(shell("for i in 1 2 3 4; do echo 1; done"), three)) CHECK(!one.value);
  for (const Reward& one : rewards_of(shell("no-such-program-here"), three)) CHECK(!one.value);
}

TEST_CASE("rewards: a command that fails is not believed, whatever it has printed") {
  const std::vector<RewardQuestion> two = {{"p", "a", 1}, {"p", "b", 2}};
  for (const Reward& one : rewards_of(shell("echo 1; echo 1; echo 'no file' >&2; exit 7"), two)) {
    CHECK(!one.value);
    CHECK(one.problem == "the command failed: exit code 7 (no file)");
  }
  for (const Reward& one : rewards_of(shell("echo 1; echo 1; kill -9 $$"), two)) CHECK(!one.value);
}

TEST_CASE("rewards: a command that hangs is ended at its deadline, with what it has started") {
  RewardSettings hangs = shell("sleep 60 & wait");
  hangs.deadline_s = 1;
  const std::vector<Reward> rewards = rewards_of(hangs, {{"p", "a", 1}});
  CHECK(!rewards[0].value);
  CHECK(rewards[0].problem.find("did not end within") != std::string::npos);
}
