// From logits on a device to the next tokens, without the logits coming to the host. What is drawn is what
// engine/infer/generate/sampling.h draws on the processor from the same logits (f32, or bf16 read as f32): the same
// order (penalties, temperature, top-k, top-p, draw), the same sums in f64, the same numbers of Philox. Of a GPU's
// exp() the last bit may be another one than that of the host's library: a draw that falls within some 1e-13 of the
// border between two tokens may then go to the other one.
//
// Everything lies in the device's memory. There is no such operation on a processor: sampling.h is.
#pragma once

#include <cstdint>
#include <span>

#include "engine/core/tensor/compute_context.h"
#include "engine/core/tensor/tensor.h"

namespace longhaul {

// Meaning and bounds as in SamplingParameters; `position` is the number of the token in its answer.
struct SampleRow {
  double temperature = 1, top_p = 1, repetition_penalty = 1, presence_penalty = 0, frequency_penalty = 0;
  std::int64_t top_k = 0;
  std::uint64_t seed = 0, stream = 0, position = 0;
  // 0: an empty place of the batch, whose logits are not looked at and whose token becomes -1.
  std::int64_t active = 1;
  // Its row of `seen`; below 0: none, for rows without a penalty. No two active rows have one.
  std::int64_t seen_row = -1;
};

struct SampleShape {
  std::int64_t sequences = 0, vocab = 0;  // vocab at most 2^21 - 1
};

// logits [sequences, vocab] f32 or bf16, not changed; rows [sequences]; tokens [sequences] is written.
// seen [any number of rows, vocab], of which a batch uses those that its rows name; or empty where none has a penalty:
// 0 for a token not seen, 1 for one of the prompt, 1 + n for one that stands n times in the answer. The token that is
// drawn is counted there, and position becomes the next one: a step may be replayed without the host. A row behind the
// end of `seen` is a caller's bug: the token becomes -1.
void sample_tokens(const ComputeContext& context, SampleShape shape, ConstView logits, std::span<SampleRow> rows,
                   std::span<std::int32_t> seen, std::span<std::int32_t> tokens);

// Log-softmax of the logits themselves, in f64: of tokens[s] into chosen[s], and the top_count highest (descending, the
// lower id first) into top_tokens and top [sequences, top_count]. A token of -1 gives NaN and -1.
void token_logprobs(const ComputeContext& context, SampleShape shape, ConstView logits,
                    std::span<const std::int32_t> tokens, std::int64_t top_count, std::span<double> chosen,
                    std::span<std::int32_t> top_tokens, std::span<double> top);

}  // namespace longhaul
