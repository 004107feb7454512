// Learning from rewards and from labels, beside TRL's own statements (tests/parity/golden/policies.json): losses of a
// step and their slopes, advantages of groups, KTO's losses.
#include <doctest/doctest.h>

#include <cmath>

#include "base/files/files.h"
#include "base/value/json.h"
#include "contracts/settings/stages/alignment.h"
#include "engine/align/group_advantage.h"
#include "engine/align/labels/label_loss.h"
#include "engine/align/policy_loss.h"

using namespace longhaul;

namespace {
namespace policy_golden {

Value golden() {
  const auto text = read_file(std::string(LONGHAUL_SOURCE_DIR) + "/tests/parity/golden/policies.json");
  REQUIRE(text.ok());
  const auto parsed = parse_json(*text, "policies.json");
  REQUIRE(parsed.ok());
  return *parsed;
}

AlignSettings settings_of(const Value& value) {
  const auto parsed = align_fields().parse(value, "");
  REQUIRE_MESSAGE(parsed.ok(), (parsed.ok() ? "" : parsed.error().message()));
  return *parsed;
}

std::vector<double> numbers(const Value& value, const char* key) {
  std::vector<double> all;
  for (const Value& one : value.find(key)->as_array()) all.push_back(one.as_number());
  return all;
}

bool near(double mine, double theirs) {
  return std::abs(mine - theirs) <= 1e-9 * std::max(1.0, std::abs(theirs));
}

}  // namespace policy_golden
}  // namespace

TEST_CASE("losses of answers under their advantages, and the slopes of tokens, are TRL's") {
  using namespace policy_golden;
  const Value of_trl = golden();
  for (const Value& step : of_trl.find("policy")->as_array()) {
    const AlignSettings settings = settings_of(*step.find("settings"));
    CAPTURE(settings.rollout.average);
    CAPTURE(settings.rollout.ratio);
    CAPTURE(settings.rollout.surrogate);
    const auto& answers = step.find("answers")->as_array();
    double tokens = 0, loss = 0;
    for (const Value& answer : answers) tokens += static_cast<double>(numbers(answer, "model").size());
    for (const Value& answer : answers) {
      const std::vector<double> model = numbers(answer, "model"), drawn = numbers(answer, "drawn"),
                                reference = numbers(answer, "reference"), slopes = numbers(answer, "slopes");
      const std::span<const double> beside =
          settings.beta > 0 ? std::span<const double>(reference) : std::span<const double>();
      const PolicyLoss one = policy_loss(settings, {model, drawn, beside, answer.get_number("advantage")});
      // What each token's loss counts in the mean over the step.
      const double share =
          settings.rollout.average == "token"
              ? 1 / tokens
              : 1 / static_cast<double>(answers.size()) /
                    (settings.rollout.average == "answer" ? static_cast<double>(model.size())
                                                          : static_cast<double>(settings.rollout.max_new_tokens));
      loss += share * one.loss;
      for (std::size_t t = 0; t < model.size(); ++t) CHECK(near(share * one.slopes[t], slopes[t]));
    }
    CHECK(near(loss, step.get_number("loss")));
  }
}

TEST_CASE("advantages of groups are TRL's, with groups of equal rewards and answers without a reward") {
  using namespace policy_golden;
  const Value of_trl = golden();
  for (const Value& list : of_trl.find("groups")->as_array()) {
    AlignSettings settings;
    settings.method = list.get_string("method"), settings.rollout.advantage = list.get_string("advantage");
    CAPTURE(settings.method);
    const auto size = static_cast<std::size_t>(list.get_number("group"));
    const auto& rewards = list.find("rewards")->as_array();
    const std::vector<double> theirs = numbers(list, "advantages");
    for (std::size_t first = 0; first < rewards.size(); first += size) {
      std::vector<std::optional<double>> group;
      for (std::size_t i = first; i < first + size; ++i)
        group.push_back(rewards[i].is_number() ? std::optional(rewards[i].as_number()) : std::nullopt);
      const std::vector<double> mine = group_advantages(settings, group);
      for (std::size_t i = 0; i < size; ++i) CHECK(near(mine[i], theirs[first + i]));
    }
  }
}

TEST_CASE("KTO's losses, slopes and divergence are TRL's") {
  using namespace policy_golden;
  const Value of_trl = golden();
  for (const Value& batch : of_trl.find("labels")->as_array()) {
    const AlignSettings settings = settings_of(*batch.find("settings"));
    const double divergence = divergence_estimate(numbers(batch, "mismatched"));
    CHECK(near(divergence, batch.get_number("divergence")));
    for (const Value& answer : batch.find("answers")->as_array()) {
      const LabelLoss one =
          kto_loss(settings, answer.get_number("ratio"), divergence, answer.get_bool("desirable", false));
      CHECK(near(one.loss, answer.get_number("loss")));
      CHECK(near(one.slope, answer.get_number("slope")));
    }
  }
}

TEST_CASE("cispo learns from every token, with weights up to its bound, and refuses what means nothing to it") {
  AlignSettings settings;
  settings.method = "grpo", settings.beta = 0, settings.rollout.surrogate = "cispo";
  settings.rollout.clip_high = 0.5;
  const double model[] = {-0.1, -2}, drawn[] = {-1.1, -1};  // ratios e and 1 / e
  const PolicyLoss loss = policy_loss(settings, {model, drawn, {}, 2});
  CHECK(loss.slopes[0] == doctest::Approx(-2 * 1.5));
  CHECK(loss.slopes[1] == doctest::Approx(-2 * std::exp(-1.0)));
  CHECK(loss.clipped == 1);
  CHECK(check_alignment(settings).ok());
  settings.rollout.dual_clip = 3, settings.rollout.clip_low = 0.1;
  const auto refused = check_alignment(settings);
  REQUIRE_FALSE(refused.ok());
  for (const char* key : {"rollout.dual_clip", "rollout.clip_low"})
    CHECK(refused.error().message().find(key) != std::string::npos);
}
