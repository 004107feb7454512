// The next tokens from logits on the device, as engine/ops/loss/sample.h has it.
#pragma once

#include "engine/ops/cuda/common/stream.h"
#include "engine/ops/loss/sample.h"

namespace longhaul::cuda {

inline constexpr Index sample_vocab_max = (Index{1} << 21) - 1;

// Sums over a whole row are made by all threads, and so rounded otherwise than those of the processor, one after the
// other. Both are within this share of the exact one (n additions of 53 bits, each with an error of at most 2^-53 of
// the sum, and weights whose last bits differ). A choice that does not change within it is the processor's; where it
// might, the row is added up again in the processor's order.
constexpr double sample_slack(Index vocab) {
  return 8.0 * static_cast<double>(vocab) / 9007199254740992.0;
}

template <class T>
struct Sample {
  Index sequences, vocab;
  const T* logits;
  SampleRow* rows;
  std::int32_t* seen;  // [seen_rows, vocab]; or null
  Index seen_rows;
  std::int32_t* tokens;
  double slack;  // sample_slack(); 1: every sum in the processor's order
};
template <class T>
void sample_tokens(cudaStream_t stream, const Sample<T>& arguments);

template <class T>
struct Logprobs {
  Index sequences, vocab, top_count;
  const T* logits;
  const std::int32_t* tokens;
  double* chosen;
  std::int32_t* top_tokens;
  double* top;
};
template <class T>
void token_logprobs(cudaStream_t stream, const Logprobs<T>& arguments);

}  // namespace longhaul::cuda
