#include "contracts/settings/stages/sample.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace longhaul;

namespace {

std::vector<std::string> sample_keys_of(const SampleSettings& settings, const SampleInputs& inputs) {
  std::vector<std::string> keys;
  for (const AlignmentProblem& one : sample_problems(settings, inputs)) keys.push_back(one.key);
  return keys;
}
using SampleKeys = std::vector<std::string>;

}  // namespace

TEST_CASE("sample refuses what does not go together, all of it at once") {
  CHECK(check_sample({}, {}).ok());
  SampleSettings s;
  s.keep = "pairs", s.samples = 1, s.reward_above = 0.5;
  CHECK(sample_keys_of(s, {}) == SampleKeys{"samples", "reward_above"});
  s = {}, s.keep = "best", s.temperature = 0, s.margin_above = 0.1;
  CHECK(sample_keys_of(s, {}) == SampleKeys{"temperature", "margin_above"});
  s.samples = 1, s.margin_above = 0;
  CHECK(sample_keys_of(s, {}).empty());
  s = {}, s.reward.kind = "regex", s.reward.command = {"judge"};
  CHECK(sample_keys_of(s, {}) == SampleKeys{"reward", "reward"});
}

TEST_CASE("sample: a reward model, a judge and a constitution are asked where the reward names them, and only there") {
  SampleSettings s;
  CHECK(sample_keys_of(s, {.reward = true}) == SampleKeys{"inputs"});
  CHECK(sample_keys_of(s, {.judge = true, .constitution = true}) == SampleKeys{"inputs", "inputs"});
  s.judge.question = "{prompt}";
  CHECK(sample_keys_of(s, {}) == SampleKeys{"judge"});
  s = {}, s.reward.kind = "model";
  CHECK(sample_keys_of(s, {}) == SampleKeys{"reward"});
  CHECK(sample_keys_of(s, {.reward = true}).empty());
  s.reward.kind = "judge";
  CHECK(sample_keys_of(s, {.judge = true, .constitution = true}).empty());
  CHECK(sample_keys_of(s, {.judge = true}) == SampleKeys{"judge"});  // {constitution}, and there is none
  s.samples = 1;
  CHECK(sample_keys_of(s, {.judge = true, .constitution = true}) == SampleKeys{"samples"});
  s.samples = 2, s.judge.question = "{prompt} {answer_a}";
  CHECK(sample_keys_of(s, {.judge = true, .constitution = true}) == SampleKeys{"judge", "judge"});
  const Status status = check_sample(s, {.judge = true, .constitution = true});
  REQUIRE(!status.ok());
  CHECK(status.error().what.find("{answer_b}") != std::string::npos);
  CHECK(status.error().what.find("leaves the constitution out") != std::string::npos);
}

TEST_CASE("rewards of sample are those of align, and the judge") {
  const auto reward_members = [](const std::vector<FieldInfo>& fields) {
    return std::ranges::find(fields, "reward", &FieldInfo::name)->members;
  };
  const std::vector<FieldInfo> align = reward_members(align_fields().describe());
  const std::vector<FieldInfo> sample = reward_members(sample_fields().describe());
  REQUIRE(align.size() == sample.size());
  for (std::size_t i = 0; i < align.size(); ++i) {
    CAPTURE(align[i].name);
    CHECK(align[i].name == sample[i].name);
    CHECK(align[i].default_text == sample[i].default_text);
    CHECK(align[i].options.min == sample[i].options.min);
    CHECK(align[i].options.max == sample[i].options.max);
  }
  SampleKeys kinds = align.front().options.choices;
  kinds.push_back("judge");
  CHECK(sample.front().options.choices == kinds);
}
