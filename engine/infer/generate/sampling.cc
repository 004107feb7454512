#include "engine/infer/generate/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/digest/philox.h"
#include "base/text/text.h"

namespace longhaul {
namespace {

constexpr float minus_infinity = -std::numeric_limits<float>::infinity();

float finite_or_lowest(float logit) {
  return std::isfinite(logit) ? logit : minus_infinity;
}

Status check_bounds(const char* name, double value, double low, double high) {
  if (value >= low && value <= high) return {};
  return make_error(ErrorCode::invalid_input, format("{} = {} is outside of {}..{}", name, value, low, high));
}

// Ids by descending logit, the first `count` in order.
std::vector<std::int32_t> highest(std::span<const float> logits, std::size_t count) {
  std::vector<std::int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  count = std::min(count, ids.size());
  const auto before = [&](std::int32_t a, std::int32_t b) {
    const float la = finite_or_lowest(logits[static_cast<std::size_t>(a)]);
    const float lb = finite_or_lowest(logits[static_cast<std::size_t>(b)]);
    return la != lb ? la > lb : a < b;
  };
  if (count < ids.size()) {
    std::nth_element(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(count), ids.end(), before);
    ids.resize(count);
  }
  std::sort(ids.begin(), ids.end(), before);
  return ids;
}

// sum over all of exp((logit - highest) / temperature)
double partition_sum(std::span<const float> logits, float top, double temperature) {
  double sum = 0;
  for (const float logit : logits) {
    if (std::isfinite(logit)) sum += std::exp((static_cast<double>(logit) - top) / temperature);
  }
  return sum;
}

float highest_logit(std::span<const float> logits) {
  float top = minus_infinity;
  for (const float logit : logits) top = std::isfinite(logit) && logit > top ? logit : top;
  return top;
}

// A draw from all logits, with the logarithm of the sum of exp(logit / temperature). Sums of blocks say in which the
// draw falls, and only of that one the exponentials are computed again.
struct WholeDraw {
  std::int32_t token = 0;
  double log_sum = 0;
};
WholeDraw draw_of_all(std::span<const float> logits, double temperature, double u) {
  constexpr std::size_t block = 256;
  const float top = highest_logit(logits);
  if (top == minus_infinity) return {0, top};
  std::vector<double> sums;
  double whole = 0;
  for (std::size_t begin = 0; begin < logits.size(); begin += block) {
    sums.push_back(partition_sum(logits.subspan(begin, std::min(block, logits.size() - begin)), top, temperature));
    whole += sums.back();
  }
  WholeDraw drawn{-1, std::log(whole) + top / temperature};
  double left = u * whole;
  std::size_t at = 0;
  while (at + 1 < sums.size() && left >= sums[at]) left -= sums[at++];
  // Rounding may lead to a last block without a weight: then the one before, and so on to the highest logit's.
  for (; drawn.token < 0; at = at > 0 ? at - 1 : 0) {
    for (std::size_t i = at * block; i < std::min(logits.size(), (at + 1) * block); ++i) {
      if (!std::isfinite(logits[i])) continue;
      const double weight = std::exp((static_cast<double>(logits[i]) - top) / temperature);
      if (weight <= 0) continue;
      drawn.token = static_cast<std::int32_t>(i);
      if (left < weight) break;
      left -= weight;
    }
  }
  return drawn;
}

bool takes_likeliest(const SamplingParameters& p) {
  return p.temperature <= 0 || p.top_k == 1 || p.top_p <= 0;
}
bool cuts_nothing(const SamplingParameters& p) {
  return p.top_k == 0 && p.top_p >= 1;
}

}  // namespace

Status check_sampling(const SamplingParameters& p) {
  LH_CHECK(check_bounds("temperature", p.temperature, 0, 2));
  LH_CHECK(check_bounds("top_p", p.top_p, 0, 1));
  LH_CHECK(check_bounds("repetition_penalty", p.repetition_penalty, 0.01, 100));
  LH_CHECK(check_bounds("presence_penalty", p.presence_penalty, -2, 2));
  LH_CHECK(check_bounds("frequency_penalty", p.frequency_penalty, -2, 2));
  if (p.top_k < 0) return make_error(ErrorCode::invalid_input, format("top_k = {} is negative; 0 is off", p.top_k));
  return {};
}

bool has_penalties(const SamplingParameters& p) {
  return p.repetition_penalty != 1 || p.presence_penalty != 0 || p.frequency_penalty != 0;
}

void apply_penalties(std::span<float> logits, const TokenHistory& history, const SamplingParameters& p) {
  if (!has_penalties(p)) return;
  for (const auto& [token, count] : history.seen()) {
    if (token < 0 || static_cast<std::size_t>(token) >= logits.size()) continue;
    double logit = logits[static_cast<std::size_t>(token)];
    logit = logit > 0 ? logit / p.repetition_penalty : logit * p.repetition_penalty;
    if (count > 0) logit -= p.presence_penalty + p.frequency_penalty * count;
    logits[static_cast<std::size_t>(token)] = static_cast<float>(logit);
  }
}

std::int32_t argmax_token(std::span<const float> logits) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < logits.size(); ++i) {
    if (finite_or_lowest(logits[i]) > finite_or_lowest(logits[best])) best = i;
  }
  return static_cast<std::int32_t>(best);
}

std::vector<Candidate> sampling_distribution(std::span<const float> logits, const SamplingParameters& p) {
  LH_ASSERT(p.temperature > 0, format("temperature={}", p.temperature));
  const std::size_t kept = p.top_k > 0 ? std::min(static_cast<std::size_t>(p.top_k), logits.size()) : logits.size();
  // Sorting a whole vocabulary costs milliseconds; with top-p alone a short head usually reaches p.
  std::size_t head = p.top_p < 1 ? std::min<std::size_t>(kept, 256) : kept;
  const float top = finite_or_lowest(logits[static_cast<std::size_t>(argmax_token(logits))]);
  if (top == minus_infinity) return {{argmax_token(logits), 1.0}};
  const double whole = kept == logits.size() ? partition_sum(logits, top, p.temperature) : 0;
  while (true) {
    std::vector<Candidate> candidates;
    double sum = 0;
    for (const std::int32_t id : highest(logits, p.top_k > 0 ? kept : head)) {
      const float logit = finite_or_lowest(logits[static_cast<std::size_t>(id)]);
      candidates.push_back(
          {id, logit == minus_infinity ? 0 : std::exp((static_cast<double>(logit) - top) / p.temperature)});
      sum += candidates.back().probability;
    }
    const double total = kept == logits.size() ? whole : sum;
    std::size_t end = candidates.size();
    if (p.top_p < 1) {
      double cumulative = 0;
      end = 0;
      while (end < candidates.size() && (end == 0 || cumulative < p.top_p * total)) {
        cumulative += candidates[end++].probability;
      }
      if (end == candidates.size() && cumulative < p.top_p * total && candidates.size() < kept) {
        head = std::min(kept, head * 16);  // the head was too short
        continue;
      }
    }
    candidates.resize(end);
    sum = 0;
    for (const Candidate& c : candidates) sum += c.probability;
    for (Candidate& c : candidates) c.probability /= sum;
    return candidates;
  }
}

std::int32_t sample_token(std::span<float> logits, const TokenHistory& history, const SamplingParameters& p,
                          std::uint64_t position) {
  apply_penalties(logits, history, p);
  if (takes_likeliest(p)) return argmax_token(logits);
  const double u = Philox{p.seed, p.stream}.uniform_double(position);
  if (cuts_nothing(p)) return draw_of_all(logits, p.temperature, u).token;
  const std::vector<Candidate> candidates = sampling_distribution(logits, p);
  double left = u;
  for (const Candidate& c : candidates) {
    if (left < c.probability) return c.token;
    left -= c.probability;
  }
  return candidates.back().token;
}

TokenLogprob sample_with_logprob(std::span<float> logits, const TokenHistory& history, const SamplingParameters& p,
                                 std::uint64_t position) {
  if (p.temperature == 1 && cuts_nothing(p) && !takes_likeliest(p) && !has_penalties(p)) {
    const WholeDraw drawn = draw_of_all(logits, 1, Philox{p.seed, p.stream}.uniform_double(position));
    return {drawn.token, static_cast<double>(logits[static_cast<std::size_t>(drawn.token)]) - drawn.log_sum};
  }
  std::vector<float> penalised;
  if (has_penalties(p)) penalised.assign(logits.begin(), logits.end());
  const std::int32_t token = sample_token(penalised.empty() ? logits : penalised, history, p, position);
  return logprobs_of(logits, token, 0).chosen;
}

PositionLogprobs logprobs_of(std::span<const float> logits, std::int32_t chosen, int top_count) {
  const float top = finite_or_lowest(logits[static_cast<std::size_t>(argmax_token(logits))]);
  const double log_sum = std::log(partition_sum(logits, top, 1.0)) + top;
  const auto entry = [&](std::int32_t token) {
    return TokenLogprob{token, static_cast<double>(logits[static_cast<std::size_t>(token)]) - log_sum};
  };
  PositionLogprobs out{entry(chosen), {}};
  if (top_count > 0) {
    for (const std::int32_t id : highest(logits, static_cast<std::size_t>(top_count))) out.top.push_back(entry(id));
  }
  return out;
}

}  // namespace longhaul
