// Sampling: the laws of every parameter, their order, and that draws belong to (seed, stream, position).
#include "engine/infer/generate/sampling.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <map>

#include "base/digest/philox.h"

namespace longhaul {
namespace {

std::vector<float> random_logits(std::uint64_t seed, std::size_t count) {
  std::vector<float> logits(count);
  const Philox philox{seed, 0};
  for (std::size_t i = 0; i < count; ++i) logits[i] = static_cast<float>(3 * philox.normal(i));
  return logits;
}

std::vector<double> softmax_reference(const std::vector<float>& logits, double temperature) {
  std::vector<double> p;
  double sum = 0;
  for (const float logit : logits) p.push_back(std::exp(static_cast<double>(logit) / temperature)), sum += p.back();
  for (double& one : p) one /= sum;
  return p;
}

}  // namespace

TEST_CASE("temperature 0 takes the highest logit, the lowest id among equals") {
  std::vector<float> logits = {1, 5, 5, -2};
  SamplingParameters p;
  p.temperature = 0;
  for (std::uint64_t i = 0; i < 5; ++i) CHECK(sample_token(logits, {}, p, i) == 1);
}

TEST_CASE("repetition penalty divides positive and multiplies negative logits, once a token, of prompt and answer") {
  std::vector<float> logits = {2, -2, 2, -2, 4};
  TokenHistory history;
  history.add_prompt(0);
  history.add_prompt(0);
  history.add_prompt(1);
  history.add_output(4);
  history.add_output(4);
  history.add_prompt(99);  // outside of the vocabulary
  SamplingParameters p;
  p.repetition_penalty = 2;
  apply_penalties(logits, history, p);
  CHECK(logits == std::vector<float>{1, -4, 2, -2, 2});
}

TEST_CASE("a penalty of a token outside of the vocabulary changes nothing, beside the logits either") {
  const std::vector<float> before = {3, 1, 2, 4};
  std::vector<float> all = before;
  TokenHistory history;
  history.add_output(-1);
  history.add_output(2);
  SamplingParameters p;
  p.presence_penalty = 1;
  apply_penalties(std::span<float>(all).subspan(1, 2), history, p);  // a vocabulary of two
  CHECK(all == before);
}

TEST_CASE("presence and frequency penalties count the answer only") {
  std::vector<float> logits = {0, 0, 0};
  TokenHistory history;
  history.add_prompt(0);
  history.add_output(1);
  history.add_output(1);
  history.add_output(1);
  SamplingParameters p;
  p.presence_penalty = 0.5;
  p.frequency_penalty = 0.25;
  apply_penalties(logits, history, p);
  CHECK(logits == std::vector<float>{0, -1.25F, 0});
}

TEST_CASE("each penalty counts where it is the only one, whatever its size") {
  TokenHistory history;
  for (int i = 0; i < 3; ++i) history.add_output(1);
  const auto logit = [&](double repetition, double presence, double frequency) {
    std::vector<float> logits = {0, 4, 0};
    SamplingParameters p;
    p.repetition_penalty = repetition, p.presence_penalty = presence, p.frequency_penalty = frequency;
    apply_penalties(logits, history, p);
    CHECK(logits[0] == 0);
    return logits[1];
  };
  CHECK(logit(1, 0, 0) == 4);
  for (const double size : {-2.0, -1.0, 0.5, 1.0, 2.0}) {
    CAPTURE(size);
    CHECK(logit(1, size, 0) == static_cast<float>(4 - size));
    CHECK(logit(1, 0, size) == static_cast<float>(4 - 3 * size));
  }
  CHECK(logit(0.5, 0, 0) == 8);
  CHECK(logit(2, 0, 0) == 2);
}

TEST_CASE("the distribution after temperature, top-k and top-p is that of the definitions") {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    CAPTURE(seed);
    const std::vector<float> logits = random_logits(seed, 50 + static_cast<std::size_t>(seed) * 37);
    SamplingParameters p;
    p.temperature = 0.3 + 0.05 * static_cast<double>(seed % 20);
    p.top_k = seed % 3 == 0 ? 0 : static_cast<std::int64_t>(seed);
    p.top_p = seed % 4 == 0 ? 1 : 0.1 + 0.02 * static_cast<double>(seed);
    // By hand: sort, cut to k, renormalise, cut to the smallest prefix that reaches p, renormalise.
    const std::vector<double> all = softmax_reference(logits, p.temperature);
    std::vector<Candidate> expected;
    for (std::size_t i = 0; i < all.size(); ++i) expected.push_back({static_cast<std::int32_t>(i), all[i]});
    std::sort(expected.begin(), expected.end(), [](auto& a, auto& b) { return a.probability > b.probability; });
    if (p.top_k > 0) expected.resize(std::min(expected.size(), static_cast<std::size_t>(p.top_k)));
    double sum = 0;
    for (auto& c : expected) sum += c.probability;
    double cumulative = 0;
    std::size_t end = 0;
    while (end < expected.size() && (p.top_p >= 1 || end == 0 || cumulative < p.top_p * sum)) {
      cumulative += expected[end++].probability;
    }
    expected.resize(end);
    const auto got = sampling_distribution(logits, p);
    REQUIRE(got.size() == expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      CHECK(got[i].token == expected[i].token);
      CHECK(got[i].probability == doctest::Approx(expected[i].probability / cumulative).epsilon(1e-6));
    }
  }
}

TEST_CASE("draws follow the distribution, with and without a cut") {
  const std::vector<float> logits = {0, 1, 2, -1, 0.5F};
  for (const bool cut : {false, true}) {
    CAPTURE(cut);
    SamplingParameters p;
    p.seed = 11;
    p.top_k = cut ? 4 : 0;
    std::map<std::int32_t, int> counts;
    constexpr int draws = 20'000;
    for (int i = 0; i < draws; ++i) {
      std::vector<float> scratch = logits;
      ++counts[sample_token(scratch, {}, p, static_cast<std::uint64_t>(i))];
    }
    double chi_square = 0;
    for (const Candidate& c : sampling_distribution(logits, p)) {
      const double expected = c.probability * draws;
      chi_square += (counts[c.token] - expected) * (counts[c.token] - expected) / expected;
      counts.erase(c.token);
    }
    CHECK(counts.empty());     // nothing outside of the cut
    CHECK(chi_square < 18.5);  // 4 degrees of freedom: one in a thousand is above
  }
}

TEST_CASE("a draw belongs to seed, stream and position, not to the order of calls") {
  const std::vector<float> logits = random_logits(3, 100);
  const auto draw = [&](std::uint64_t seed, std::uint64_t stream, std::uint64_t position) {
    std::vector<float> scratch = logits;
    SamplingParameters p;
    p.seed = seed;
    p.stream = stream;
    return sample_token(scratch, {}, p, position);
  };
  std::vector<std::int32_t> forward, backward, other_stream, other_seed;
  for (std::uint64_t i = 0; i < 50; ++i) forward.push_back(draw(1, 0, i));
  for (std::uint64_t i = 50; i-- > 0;) backward.insert(backward.begin(), draw(1, 0, i));
  for (std::uint64_t i = 0; i < 50; ++i) other_stream.push_back(draw(1, 1, i)), other_seed.push_back(draw(2, 0, i));
  CHECK(forward == backward);
  CHECK(forward != other_stream);
  CHECK(forward != other_seed);
}

TEST_CASE("logits that are not finite are never drawn, and do not spoil the others") {
  constexpr float inf = std::numeric_limits<float>::infinity();
  for (int i = 0; i < 200; ++i) {
    std::vector<float> logits = {-inf, 0, std::nanf(""), 1, inf};
    SamplingParameters p;
    p.top_p = i % 2 == 0 ? 1 : 0.9;
    const std::int32_t token = sample_token(logits, {}, p, static_cast<std::uint64_t>(i));
    CHECK((token == 1 || token == 3));
  }
  std::vector<float> nothing(4, std::nanf(""));
  CHECK(sample_token(nothing, {}, {}, 0) == 0);
}

TEST_CASE("log-probabilities are those of the raw logits") {
  const std::vector<float> logits = random_logits(5, 64);
  const std::vector<double> p = softmax_reference(logits, 1);
  const PositionLogprobs got = logprobs_of(logits, 7, 3);
  CHECK(got.chosen.logprob == doctest::Approx(std::log(p[7])).epsilon(1e-6));
  REQUIRE(got.top.size() == 3);
  CHECK(got.top[0].token == argmax_token(logits));
  CHECK(got.top[0].logprob >= got.top[1].logprob);
  CHECK(got.top[1].logprob >= got.top[2].logprob);
}

TEST_CASE("a draw with its log-probability is that of the two functions apart, whatever the parameters") {
  for (int kind = 0; kind < 6; ++kind) {
    CAPTURE(kind);
    SamplingParameters p;
    p.seed = 11, p.stream = static_cast<std::uint64_t>(kind);
    if (kind == 1) p.temperature = 0.5;
    if (kind == 2) p.top_k = 20;
    if (kind == 3) p.temperature = 0;
    if (kind == 4) p.presence_penalty = 1;
    if (kind == 5) p.temperature = 2;
    TokenHistory history;
    for (const std::int32_t token : {5, 300, 601}) history.add_output(token);
    for (std::uint64_t i = 0; i < 200; ++i) {
      std::vector<float> raw = random_logits(i + 1, 700);  // three blocks of sums
      raw[i] = std::numeric_limits<float>::quiet_NaN();
      std::vector<float> scratch = raw;
      const std::int32_t token = sample_token(scratch, history, p, i);
      std::vector<float> logits = raw;
      const TokenLogprob drawn = sample_with_logprob(logits, history, p, i);
      CHECK(drawn.token == token);
      CHECK(drawn.logprob == doctest::Approx(logprobs_of(raw, token, 0).chosen.logprob).epsilon(1e-12).scale(1));
    }
  }
}

TEST_CASE("parameters out of bounds are refused by name") {
  const auto refused = [](auto change) {
    SamplingParameters p;
    change(p);
    return check_sampling(p).ok() ? std::string() : check_sampling(p).error().what.substr(0, 5);
  };
  CHECK(refused([](auto& p) { p.temperature = -1; }) == "tempe");
  CHECK(refused([](auto& p) { p.temperature = std::nan(""); }) == "tempe");
  CHECK(refused([](auto& p) { p.top_p = 1.5; }) == "top_p");
  CHECK(refused([](auto& p) { p.top_k = -1; }) == "top_k");
  CHECK(refused([](auto& p) { p.repetition_penalty = 0; }) == "repet");
  CHECK(refused([](auto&) {}) == "");
}

TEST_CASE("every sampling parameter is taken from its least to its largest value and refused beyond them") {
  struct Bounds {
    double SamplingParameters::* parameter;
    double least, largest;
  };
  using P = SamplingParameters;
  for (const Bounds& one : {Bounds{&P::temperature, 0, 2},
                            {&P::top_p, 0, 1},
                            {&P::repetition_penalty, 0.01, 100},
                            {&P::presence_penalty, -2, 2},
                            {&P::frequency_penalty, -2, 2}}) {
    const auto taken = [&](double value) {
      P p;
      p.*one.parameter = value;
      return check_sampling(p).ok();
    };
    CAPTURE(one.largest);
    CHECK(taken(one.least));
    CHECK(taken(one.largest));
    CHECK_FALSE(taken(one.least - 1e-9));
    CHECK_FALSE(taken(one.largest + 1e-9));
  }
}

}  // namespace longhaul
