// From logits to the next token. The order is fixed and part of the server's contract (docs/serving.md):
//
//   repetition, presence and frequency penalties  →  temperature  →  top-k  →  top-p  →  draw
//
// Temperature 0 is greedy: the highest penalised logit, the lowest id among equals. Everything here is a pure function:
// the draw belongs to (seed, stream, position), so an answer does not depend on which other requests run beside it.
//
// repetition_penalty p: a logit of a token that stands in the prompt or in the answer is divided by p where positive
// and
//   multiplied where negative, once per token (Keskar et al. 2019, "CTRL", section 4.1, in the form for signed logits).
// presence, frequency: logit -= presence * [count > 0] + frequency * count, counted over the answer only (OpenAI API).
// top_k: only the k highest; 0 is off. top_p: the smallest prefix, by descending probability, that reaches p (Holtzman
// et
//   al. 2020, "The curious case of neural text degeneration"); after top-k, so p is of what top-k left; 1 is off.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/error/result.h"

namespace longhaul {

struct SamplingParameters {
  double temperature = 1;
  std::int64_t top_k = 0;
  double top_p = 1;
  double repetition_penalty = 1;
  double presence_penalty = 0;
  double frequency_penalty = 0;
  std::uint64_t seed = 0;
  std::uint64_t stream = 0;  // apart for several answers to one request
};
// Bounds: temperature 0..2 and so on; the error names the parameter and its bounds.
Status check_sampling(const SamplingParameters& parameters);
bool has_penalties(const SamplingParameters& parameters);

// How often each token was seen, for the penalties.
class TokenHistory {
 public:
  void add_prompt(std::int32_t token) { seen_.try_emplace(token, 0); }
  void add_output(std::int32_t token) { ++seen_[token]; }
  // token -> times in the answer (0: in the prompt only)
  const std::unordered_map<std::int32_t, std::int32_t>& seen() const { return seen_; }

 private:
  std::unordered_map<std::int32_t, std::int32_t> seen_;
};

// In place on `logits` [vocabulary]; tokens outside of it are ignored.
void apply_penalties(std::span<float> logits, const TokenHistory& history, const SamplingParameters& parameters);

struct Candidate {
  std::int32_t token = 0;
  double probability = 0;
};
// What may be drawn after temperature, top-k and top-p, probabilities summing to 1, descending (ties: lower id first).
// Needs temperature > 0. Non-finite logits count as -infinity.
std::vector<Candidate> sampling_distribution(std::span<const float> logits, const SamplingParameters& parameters);

// Of the model itself: log-softmax of the raw logits, before any of the above.
struct TokenLogprob {
  std::int32_t token = 0;
  double logprob = 0;
};

// Number `position` of the answer; `logits` are scratch and hold the penalised values afterwards.
std::int32_t sample_token(std::span<float> logits, const TokenHistory& history, const SamplingParameters& parameters,
                          std::uint64_t position);
std::int32_t argmax_token(std::span<const float> logits);

// sample_token() with the log-probability that logprobs_of() gives the token, each exponential computed once where
// temperature 1 makes both of the same ones.
TokenLogprob sample_with_logprob(std::span<float> logits, const TokenHistory& history,
                                 const SamplingParameters& parameters, std::uint64_t position);

struct PositionLogprobs {
  TokenLogprob chosen;
  std::vector<TokenLogprob> top;  // descending, `top_count` of them
};
PositionLogprobs logprobs_of(std::span<const float> logits, std::int32_t chosen, int top_count);

}  // namespace longhaul
