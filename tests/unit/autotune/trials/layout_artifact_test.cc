#include "autotune/trials/layout_artifact.h"

#include <doctest/doctest.h>

#include "base/text/text.h"
#include "base/toml.h"

namespace longhaul {
namespace {

LayoutArtifact sample_layout() {
  std::vector<Trial> candidates(2);
  candidates[0].name = "tp2";
  candidates[0].predicted_seconds = 0.5, candidates[0].predicted_sigma = 0.1;
  candidates[0].predicted_from = ForecastSource::measured_elsewhere;
  candidates[0].settings = *parse_toml(
      "parallel = { tp = 2, sp = true }\nranks = 4\nmicro_batch_size = 2\nrecompute = { modules = [\"mlp\"] }\n", "x");
  candidates[1].name = "dp2";
  candidates[1].settings = *parse_toml("parallel = { dp_shard = 2 }\n", "x");
  std::vector<TrialResult> results(2);
  results[0].name = "tp2";
  results[0].outcome = TrialOutcome::measured;
  results[0].step_seconds = {0.4, 0.41, 0.39, 0.4, 0.4};
  results[0].peak_bytes = 1 << 30;
  results[0].node_seconds = 1800;
  results[1].name = "dp2";
  results[1].outcome = TrialOutcome::crash;
  results[1].what = "signal \"11\"\nof rank 3";
  results[1].node_seconds = 1800;
  const ConfirmationLimits limits;
  const ConfirmationDecision decision = decide_confirmation(candidates, results, limits);
  REQUIRE(decision.winner == "tp2");
  return make_layout_artifact("pretrain", candidates, results, decision, limits, 1000);
}

}  // namespace

TEST_CASE("what is published reads back, can be pasted, and says who lost and why") {
  const LayoutArtifact made = sample_layout();
  CHECK(made.tokens_per_second == doctest::Approx(2500));
  CHECK(made.node_hours == doctest::Approx(1));
  const std::string text = layout_artifact_text(made);
  CHECK(text.find("\nparallel = { tp = 2, sp = true }\nranks = 4\nmicro_batch_size = 2\n"
                  "recompute = { modules = [\"mlp\"] }\n") != std::string::npos);
  CHECK(text.find("#   dp2: crash: signal \"11\" of rank 3\n") != std::string::npos);
  CHECK(text.find("# Measured: 0.4 s a step") != std::string::npos);
  CHECK(text.find("# Predicted: 0.5 s a step, 0.418 to 0.598 s in 95 % of cases, from what others measured of such "
                  "devices.\n") != std::string::npos);
  const auto read = layout_artifact_from_text(text, "layout.toml");
  REQUIRE_MESSAGE(read.ok(), (read.ok() ? "" : read.error().message()));
  CHECK(read->settings == made.settings);
  CHECK(read->stage == "pretrain");
  CHECK(read->winner == "tp2");
  CHECK(read->step_seconds == made.step_seconds);
  CHECK(read->peak_bytes == made.peak_bytes);
  CHECK(read->predicted_from == ForecastSource::measured_elsewhere);
  CHECK(read->predicted_low == doctest::Approx(0.5 / 1.196));
  CHECK(read->predicted_high == doctest::Approx(0.5 * 1.196));
  CHECK(read->trials == 2);
  REQUIRE(read->candidates.size() == 2);
  CHECK(read->candidates[0].outcome == "won");
  CHECK(read->candidates[1].outcome == "failed");
  CHECK(read->candidates[1].why == made.candidates[1].why);
  CHECK(layout_artifact_text(*read) == text);
}

TEST_CASE("a layout of an earlier version has no interval and no source, and is read") {
  std::string text = layout_artifact_text(sample_layout());
  for (const char* key : {"predicted_low", "predicted_high", "predicted_from"}) {
    const std::size_t begin = text.find(std::string("\n") + key);
    REQUIRE(begin != std::string::npos);
    text.erase(begin, text.find('\n', begin + 1) - begin);
  }
  const auto read = layout_artifact_from_text(text, "layout.toml");
  REQUIRE_MESSAGE(read.ok(), (read.ok() ? "" : read.error().message()));
  CHECK_FALSE(read->predicted_from);
  CHECK(layout_artifact_text(*read).find("# Predicted: 0.5 s a step.\n") != std::string::npos);
}

TEST_CASE("a layout that was cut, edited or is another's is refused by name") {
  const std::string text = layout_artifact_text(sample_layout());
  const auto refused = [](const std::string& changed) {
    const auto read = layout_artifact_from_text(changed, "there/layout.toml");
    REQUIRE_FALSE(read.ok());
    CHECK(read.error().code == ErrorCode::corrupt);
    CHECK(starts_with(read.error().what, "there/layout.toml is not the layout of a tune stage: "));
    return read.error().what;
  };
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    REQUIRE(changed.find(from) != std::string::npos);
    return changed.replace(changed.find(from), from.size(), to);
  };
  CHECK(refused("").find("no table [found]") != std::string::npos);
  CHECK(refused(text.substr(0, text.find("[found]"))).find("no table [found]") != std::string::npos);
  CHECK(refused(with("parallel = { tp", "tensor = { tp")).find("no table `parallel`") != std::string::npos);
  CHECK(refused(with("{ tp = 2", "{ tp = 0")).find("parallel.tp") != std::string::npos);
  CHECK(refused(with("format = 1", "format = 2")).find("its format is 2") != std::string::npos);
  CHECK(refused(with("measured_elsewhere", "guessed")).find("predicted_from") != std::string::npos);
  CHECK(refused(with("\ntrials = 2", "\ntrails = 2")).find("trails") != std::string::npos);
  CHECK(refused(with("\nstep_seconds = ", "\nstep_seconds = true # ")).find("step_seconds") != std::string::npos);
  for (std::size_t length = 0; length + 2 < text.size(); length += 41)
    CHECK_FALSE(layout_artifact_from_text(text.substr(0, length), "x").ok());
}

}  // namespace longhaul
