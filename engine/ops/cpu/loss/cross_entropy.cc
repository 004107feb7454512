#include "engine/ops/loss/cross_entropy.h"

#include <algorithm>

#include "base/text/text.h"
#include "engine/core/tensor/parallel_for.h"
#include "engine/ops/cpu/simd/dispatch.h"
#include "engine/ops/cpu/simd/kernels.h"
#include "engine/ops/device_ops.h"
#include "engine/ops/linear/gemm.h"

namespace longhaul {
namespace {

using cpu::Index;

void check_targets(Index tokens, Index vocab, std::span<const std::int32_t> targets, std::span<float> loss) {
  cpu::check_size(targets.size(), tokens, "targets");
  cpu::check_size(loss.size(), tokens, "loss");
  for (Index t = 0; t < tokens; ++t) {
    const std::int32_t target = targets[static_cast<std::size_t>(t)];
    LH_ASSERT(target >= -2 && target < vocab, format("token {} has target {}, vocabulary of {}", t, target, vocab));
  }
}

// kernel(z, vocab, target, weight, dz) for every token; dz rows are `dz_stride` elements apart.
template <class T, class D, class Kernel>
void rows(const ComputeContext& context, CrossEntropyShape shape, const T* z, std::span<const std::int32_t> targets,
          std::span<const float> weights, std::span<float> loss, D* dz, Index dz_stride, Kernel kernel) {
  parallel_for(context, shape.tokens, 8, [&](Index begin, Index end) {
    for (Index t = begin; t < end; ++t) {
      const auto i = static_cast<std::size_t>(t);
      D* row = dz == nullptr ? nullptr : dz + t * dz_stride;
      const std::int32_t target = targets[i];
      const float weight = weights.empty() ? 0.0F : weights[i];
      if (target < 0 || (row != nullptr && weight == 0.0F)) {
        loss[i] = target < 0 ? 0.0F : kernel(z + t * shape.vocab, shape.vocab, target, 0.0F, nullptr);
        if (row != nullptr) std::fill(row, row + shape.vocab, D(0.0F));
        continue;
      }
      loss[i] = kernel(z + t * shape.vocab, shape.vocab, target, weight, row);
    }
  });
}

}  // namespace

void cross_entropy_forward(const ComputeContext& context, CrossEntropyShape shape, ConstView logits,
                           std::span<const std::int32_t> targets, std::span<float> loss) {
  if (const DeviceOps* device = context.device_ops())
    return device->cross_entropy_forward(shape, logits, targets, loss);
  check_targets(shape.tokens, shape.vocab, targets, loss);
  cpu::with_float_type(logits.dtype(), "cross_entropy", [&](auto type) {
    using T = decltype(type);
    const T* z = cpu::elements<T>(logits, shape.tokens * shape.vocab, "logits");
    rows<T, T>(context, shape, z, targets, {}, loss, nullptr, 0, cpu::kernels(context).of<T>().cross_entropy);
  });
}

void cross_entropy_forward_backward(const ComputeContext& context, CrossEntropyShape shape, ConstView logits,
                                    std::span<const std::int32_t> targets, std::span<const float> weights,
                                    std::span<float> loss, View dlogits) {
  if (const DeviceOps* device = context.device_ops())
    return device->cross_entropy_forward_backward(shape, logits, targets, weights, loss, dlogits);
  check_targets(shape.tokens, shape.vocab, targets, loss);
  cpu::check_size(weights.size(), shape.tokens, "weights");
  cpu::with_float_type(logits.dtype(), "cross_entropy", [&](auto type) {
    using T = decltype(type);
    const T* z = cpu::elements<T>(logits, shape.tokens * shape.vocab, "logits");
    T* dz = cpu::elements<T>(dlogits, shape.tokens * shape.vocab, "dlogits");
    rows<T, T>(context, shape, z, targets, weights, loss, dz, shape.vocab, cpu::kernels(context).of<T>().cross_entropy);
  });
}

void lm_head_loss(const ComputeContext& context, const LmHeadShape& shape, ConstView x, ConstView weight,
                  std::span<const std::int32_t> targets, std::span<const float> weights, std::span<float> loss, View dx,
                  View dweight) {
  if (const DeviceOps* device = context.device_ops())
    return device->lm_head_loss(shape, x, weight, targets, weights, loss, dx, dweight);
  check_targets(shape.tokens, shape.vocab, targets, loss);
  LH_ASSERT(shape.chunk_tokens >= 1, std::to_string(shape.chunk_tokens));
  LH_ASSERT(!dx.empty() || dweight.empty(), "lm_head_loss: the gradient of the weight comes with that of x");
  if (!dx.empty()) cpu::check_size(weights.size(), shape.tokens, "weights");
  const Index chunk = std::min(shape.chunk_tokens, shape.tokens);
  auto* logits = reinterpret_cast<float*>(context.scratch(2, chunk * shape.vocab * 4));
  const ConstView all_x = x.reshaped({shape.tokens, shape.hidden});
  for (Index begin = 0; begin < shape.tokens; begin += chunk) {
    const Index n = std::min(chunk, shape.tokens - begin);
    const auto at = static_cast<std::size_t>(begin), count = static_cast<std::size_t>(n);
    const ConstView rows_x = all_x.rows(begin, begin + n);
    GemmShape forward{.m = n, .n = shape.vocab, .k = shape.hidden};
    forward.transpose_b = true;
    gemm(context, forward, rows_x, weight, View(logits, Shape{n, shape.vocab}));
    const CrossEntropyShape part{n, shape.vocab};
    const auto losses = loss.subspan(at, count);
    const auto targets_here = targets.subspan(at, count);
    const cpu::Kernels& kernels = cpu::kernels(context);
    if (dx.empty()) {
      rows<float, float>(context, part, logits, targets_here, {}, losses, nullptr, 0, kernels.f32.cross_entropy);
      continue;
    }
    // In bf16 the gradient of a row takes the first half of the row's own f32 memory.
    const bool narrow = x.dtype() == DType::bf16;
    auto* half = reinterpret_cast<bf16*>(logits);
    const auto weights_here = weights.subspan(at, count);
    if (narrow) {
      rows<float, bf16>(context, part, logits, targets_here, weights_here, losses, half, 2 * shape.vocab,
                        kernels.cross_entropy_to_bf16);
    } else {
      rows<float, float>(context, part, logits, targets_here, weights_here, losses, logits, shape.vocab,
                         kernels.f32.cross_entropy);
    }
    const Index stride = narrow ? 2 * shape.vocab : shape.vocab;
    const ConstView dz = narrow ? ConstView(half, Shape{n, stride}) : ConstView(logits, Shape{n, stride});
    GemmShape input{.m = n, .n = shape.hidden, .k = shape.vocab};
    input.row_stride_a = stride;
    gemm(context, input, dz, weight, dx.reshaped({shape.tokens, shape.hidden}).rows(begin, begin + n));
    if (dweight.empty()) continue;
    GemmShape gradient{.m = shape.vocab, .n = shape.hidden, .k = n};
    gradient.transpose_a = true;
    gradient.beta = begin == 0 && !shape.accumulate ? 0.0F : 1.0F;
    gradient.row_stride_a = stride;
    gemm(context, gradient, dz, rows_x, dweight);
  }
}

}  // namespace longhaul
