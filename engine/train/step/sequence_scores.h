// Log-probabilities of given tokens after given texts, many sequences at a time: answer losses, preferences, multiple
// choice, bits per byte, the reference of DPO.
#pragma once

#include <functional>
#include <vector>

#include "engine/model/llama.h"

namespace longhaul {

struct ScoreRequest {
  std::span<const std::int32_t> ids;   // the whole sequence, at most length_max + 1 tokens
  std::span<const std::uint8_t> mask;  // same length; 1: this token is scored, given all before it. The first never is.
  bool compare = false;                // also find whether the scored tokens are the most likely ones
};

struct SequenceScore {
  double log_probability = 0;  // natural, summed over the scored tokens
  std::int64_t tokens = 0;     // how many were scored
  bool most_likely = true;     // where it was asked: no token had a larger logit at any of them
};

// In the order of the requests. Sequences of similar length share a micro-batch of at most `tokens_max` tokens (what
// the model was made for); padding changes no score. `progress` (sequences done) may be empty.
Result<std::vector<SequenceScore>> score_sequences(const ComputeContext& context, Llama& model, std::int64_t tokens_max,
                                                   std::span<const ScoreRequest> requests,
                                                   const std::function<void(std::size_t)>& progress = {});

}  // namespace longhaul
