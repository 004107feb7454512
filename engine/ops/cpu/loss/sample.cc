#include "engine/ops/loss/sample.h"

#include "engine/ops/device_ops.h"

namespace longhaul {
namespace {

const DeviceOps& device_of(const ComputeContext& context, const char* operation) {
  LH_ASSERT(context.device_ops() != nullptr,
            std::string(operation) + " is for devices; on a processor use engine/infer/generate/sampling.h");
  return *context.device_ops();
}

}  // namespace

void sample_tokens(const ComputeContext& context, SampleShape shape, ConstView logits, std::span<SampleRow> rows,
                   std::span<std::int32_t> seen, std::span<std::int32_t> tokens) {
  device_of(context, "sample_tokens").sample_tokens(shape, logits, rows, seen, tokens);
}

void token_logprobs(const ComputeContext& context, SampleShape shape, ConstView logits,
                    std::span<const std::int32_t> tokens, std::int64_t top_count, std::span<double> chosen,
                    std::span<std::int32_t> top_tokens, std::span<double> top) {
  device_of(context, "token_logprobs").token_logprobs(shape, logits, tokens, top_count, chosen, top_tokens, top);
}

}  // namespace longhaul
