// Tokens from logits.
#include "base/text/text.h"
#include "engine/ops/cpu/simd/dispatch.h"
#include "engine/ops/cuda/loss/sample_kernels.h"
#include "engine/ops/cuda/operations/cuda_loss_ops.h"

namespace longhaul::cuda {
namespace {

using cpu::check_size;
using cpu::elements;
using cpu::with_float_type;

void check_shape(SampleShape s) {
  LH_ASSERT(s.vocab >= 1 && s.vocab <= sample_vocab_max, format("a vocabulary of {}", s.vocab));
}

}  // namespace

void CudaLossOps::sample_tokens(SampleShape s, ConstView logits, std::span<SampleRow> rows,
                                std::span<std::int32_t> seen, std::span<std::int32_t> tokens) const {
  check_shape(s);
  check_size(rows.size(), s.sequences, "rows");
  check_size(tokens.size(), s.sequences, "tokens");
  const Index seen_rows = static_cast<Index>(seen.size()) / s.vocab;
  with_float_type(logits.dtype(), "sample_tokens", [&](auto type) {
    using T = decltype(type);
    cuda::sample_tokens(
        work_.stream, Sample<T>{s.sequences, s.vocab, elements<T>(logits, s.sequences * s.vocab, "logits"), rows.data(),
                                seen.data(), seen_rows, tokens.data(), sample_slack(s.vocab)});
  });
}

void CudaLossOps::token_logprobs(SampleShape s, ConstView logits, Ids tokens, std::int64_t top_count,
                                 std::span<double> chosen, std::span<std::int32_t> top_tokens,
                                 std::span<double> top) const {
  check_shape(s);
  check_size(tokens.size(), s.sequences, "tokens");
  check_size(chosen.size(), s.sequences, "chosen");
  check_size(top_tokens.size(), s.sequences * top_count, "top_tokens");
  check_size(top.size(), s.sequences * top_count, "top");
  with_float_type(logits.dtype(), "token_logprobs", [&](auto type) {
    using T = decltype(type);
    cuda::token_logprobs(
        work_.stream, Logprobs<T>{s.sequences, s.vocab, top_count, elements<T>(logits, s.sequences * s.vocab, "logits"),
                                  tokens.data(), chosen.data(), top_tokens.data(), top.data()});
  });
}

}  // namespace longhaul::cuda
