// Losses of preferences: those of TRL (tests/parity/golden/preferences.json, made by its code), their derivatives, and
// what stays true far from where anybody trains.
#include "engine/align/pair_loss.h"

#include <doctest/doctest.h>

#include <cmath>
#include <set>

#include "base/digest/philox.h"
#include "base/files/files.h"
#include "base/value/json.h"
#include "contracts/settings/stages/alignment.h"

using namespace longhaul;

namespace {

Value preference_golden() {
  const auto text = read_file(std::string(LONGHAUL_SOURCE_DIR) + "/tests/parity/golden/preferences.json");
  REQUIRE(text.ok());
  const auto golden = parse_json(*text, "preferences.json");
  REQUIRE(golden.ok());
  return *golden;
}

// Of a method: every divergence that it has, smoothed and not, summed and per token, as far as they are allowed.
std::vector<AlignSettings> allowed_settings(const AlignMethod& method) {
  std::vector<AlignSettings> allowed;
  for (const char* divergence : {"reverse_kl", "forward_kl", "js", "alpha"})
    for (const double smoothing : {0.0, 0.1})
      for (const bool per_token : {false, true})
        for (const double margin : {0.0, 0.4}) {
          AlignSettings s;
          s.method = method.name, s.beta = 0.7, s.divergence = divergence, s.label_smoothing = smoothing;
          s.length_normalized = per_token, s.reward_margin = margin;
          if (check_alignment(s).ok()) allowed.push_back(s);
        }
  return allowed;
}

double loss_of(const AlignSettings& settings, const PairScores& scores) {
  return pair_loss_method(settings.method).loss(settings, scores).loss;
}

}  // namespace

TEST_CASE("losses of preferences, their gradients and rewards are TRL's") {
  const Value golden = preference_golden();
  double worst = 0;
  std::set<std::string> seen;
  const auto near = [&](double mine, double theirs) {
    const double off = std::abs(mine - theirs) / std::max(1.0, std::abs(theirs));
    worst = std::max(worst, off);
    CHECK(off <= 1e-5);
  };
  for (const Value& one : golden.find("cases")->as_array()) {
    const auto parsed = align_fields().parse(*one.find("settings"), "");
    REQUIRE_MESSAGE(parsed.ok(), (parsed.ok() ? "" : parsed.error().message()));
    const AlignSettings& settings = *parsed;
    CHECK(check_alignment(settings).ok());
    CAPTURE(settings.method);
    CAPTURE(settings.divergence);
    CAPTURE(settings.beta);
    seen.insert(settings.method);
    for (const Value& pair : one.find("pairs")->as_array()) {
      const double chosen_tokens = pair.get_number("chosen_tokens"),
                   rejected_tokens = pair.get_number("rejected_tokens");
      const double of_chosen = settings.length_normalized ? 1 / chosen_tokens : 1;
      const double of_rejected = settings.length_normalized ? 1 / rejected_tokens : 1;
      const bool reference = align_method(settings.method).reference;
      const PairScores scores{pair.get_number("chosen") * of_chosen, pair.get_number("rejected") * of_rejected,
                              reference ? pair.get_number("chosen_reference") * of_chosen : 0,
                              reference ? pair.get_number("rejected_reference") * of_rejected : 0};
      const PairLoss loss = pair_loss_method(settings.method).loss(settings, scores);
      const double sft = settings.sft_weight / chosen_tokens;
      near(loss.loss - sft * pair.get_number("chosen"), pair.get_number("loss"));
      near(loss.d_chosen * of_chosen - sft, pair.get_number("d_chosen"));
      near(loss.d_rejected * of_rejected, pair.get_number("d_rejected"));
      // TRL's rewards are of whole answers where there is a reference.
      near(settings.beta * (scores.chosen - scores.chosen_reference),
           pair.get_number("chosen_reward") * (reference ? of_chosen : 1));
      near(settings.beta * (scores.rejected - scores.rejected_reference),
           pair.get_number("rejected_reward") * (reference ? of_rejected : 1));
    }
  }
  CHECK(seen.size() == pair_loss_methods().size());
  MESSAGE("largest difference from TRL: " << worst);
}

TEST_CASE("derivatives of every loss of preferences agree with finite differences") {
  const std::uint64_t seed = 20240607;
  CAPTURE(seed);
  for (const AlignMethod& method : align_methods()) {
    if (method.labels) continue;
    CAPTURE(method.name);
    const std::vector<AlignSettings> allowed = allowed_settings(method);
    CHECK(!allowed.empty());
    for (const AlignSettings& settings : allowed) {
      const Philox random{seed, 1};
      for (std::uint64_t k = 0; k < 20; ++k) {
        const auto draw = [&](std::uint64_t i) { return -0.05 - 3 * std::abs(random.normal(4 * k + i)); };
        PairScores scores{draw(0), draw(1), 0, 0};
        if (method.reference) scores.chosen_reference = draw(2), scores.rejected_reference = draw(3);
        const PairLoss loss = pair_loss_method(method.name).loss(settings, scores);
        const double h = 1e-6;
        for (double PairScores::* side : {&PairScores::chosen, &PairScores::rejected}) {
          PairScores up = scores, down = scores;
          up.*side += h, down.*side -= h;
          const double slope = (loss_of(settings, up) - loss_of(settings, down)) / (2 * h);
          const double mine = side == &PairScores::chosen ? loss.d_chosen : loss.d_rejected;
          CAPTURE(settings.divergence);
          CHECK(std::abs(mine - slope) <= 2e-6 * std::max(1.0, std::abs(slope)));
        }
      }
    }
  }
}

TEST_CASE("every loss of preferences is a number, with numbers as derivatives, at any log-probabilities") {
  for (const PairLossMethod& one : pair_loss_methods()) {
    const AlignMethod& method = align_method(one.name);
    for (const AlignSettings& settings : allowed_settings(method))
      for (const double chosen : {-5000.0, -1.0, 0.0})
        for (const double rejected : {-5000.0, -1.0, 0.0}) {
          const double reference = method.reference ? -700 : 0;
          const PairLoss loss = pair_loss_method(method.name).loss(settings, {chosen, rejected, reference, reference});
          CAPTURE(method.name);
          CAPTURE(settings.divergence);
          CAPTURE(chosen);
          CAPTURE(rejected);
          CHECK(std::isfinite(loss.loss));
          CHECK(std::isfinite(loss.d_chosen));
          CHECK(std::isfinite(loss.d_rejected));
        }
  }
}

TEST_CASE("DPO loss: beta 0 and an unmoved policy give ln 2, and it falls as the margin grows") {
  const auto loss = [](double beta, double smoothing, const PairScores& scores) {
    AlignSettings s;
    s.beta = beta, s.label_smoothing = smoothing;
    return dpo_loss(s, scores).loss;
  };
  CHECK(loss(0, 0, {-5, -50, -6, -7}) == doctest::Approx(std::log(2.0)));
  CHECK(loss(0.1, 0, {-5, -8, -5, -8}) == doctest::Approx(std::log(2.0)));
  // By hand: margin = (-4 + 5) - (-9 + 8) = 2, loss = log(1 + exp(-0.2)).
  CHECK(loss(0.1, 0, {-4, -9, -5, -8}) == doctest::Approx(std::log1p(std::exp(-0.2))));
  // Far out it neither overflows nor loses its slope.
  CHECK(loss(1, 0, {-2000, 0, 0, 0}) == doctest::Approx(2000.0));
  CHECK(loss(1, 0, {0, -2000, 0, 0}) == doctest::Approx(0.0));
  // Smoothing of one half does not care which answer is right.
  CHECK(loss(0.3, 0.5, {-4, -9, -5, -8}) == doctest::Approx(loss(0.3, 0.5, {-9, -4, -8, -5})));
}

TEST_CASE("robust DPO is DPO where no label is wrong, and unbiased where some are") {
  AlignSettings plain, noisy;
  noisy.label_smoothing = 0.2;
  const PairScores scores{-4, -9, -5, -8}, swapped{-9, -4, -8, -5};
  CHECK(robust_dpo_loss(plain, scores).loss == doctest::Approx(dpo_loss(plain, scores).loss));
  const double expected = 0.8 * robust_dpo_loss(noisy, scores).loss + 0.2 * robust_dpo_loss(noisy, swapped).loss;
  CHECK(expected == doctest::Approx(dpo_loss(plain, scores).loss));
}
