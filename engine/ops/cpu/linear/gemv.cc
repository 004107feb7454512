#include "engine/ops/linear/gemv.h"

#include "base/text/text.h"
#include "engine/ops/cpu/simd/few_rows.h"
#include "engine/ops/device_ops.h"

namespace longhaul {
namespace cpu {

StagedRows stage_rows(const ComputeContext& context, LinearShape shape, ConstView x) {
  StagedRows staged{};
  staged.k_padded = (shape.in + 15) / 16 * 16;
  const Index x_size = shape.tokens * staged.k_padded;
  staged.x = reinterpret_cast<float*>(context.scratch(0, (x_size + shape.tokens * shape.out) * 4));
  staged.y = staged.x + x_size;
  std::fill(staged.x, staged.y, 0.0F);
  with_float_type(x.dtype(), "gemv", [&](auto type) {
    using T = decltype(type);
    const T* px = elements<T>(x, shape.tokens * shape.in, "x");
    for (Index t = 0; t < shape.tokens; ++t) {
      kernels(context).of<T>().to_f32(px + t * shape.in, staged.x + t * staged.k_padded, shape.in);
    }
  });
  return staged;
}

void unstage_rows(const ComputeContext& context, LinearShape shape, const float* result, View y) {
  const Index n = shape.tokens * shape.out;
  with_float_type(y.dtype(), "gemv", [&](auto type) {
    using T = decltype(type);
    kernels(context).of<T>().from_f32(result, elements<T>(y, n, "y"), n);
  });
}

}  // namespace cpu

using cpu::Index;

void gemv(const ComputeContext& context, LinearShape shape, ConstView x, ConstView weight, View y) {
  LH_ASSERT(shape.tokens <= kGemvTokensMax, format("{} tokens, at most {}", shape.tokens, kGemvTokensMax));
  if (shape.tokens == 0) return;
  if (const DeviceOps* device = context.device_ops()) return device->gemv(shape, x, weight, y);
  cpu::with_float_type(weight.dtype(), "gemv", [&](auto type) {
    using T = decltype(type);
    const T* w = cpu::elements<T>(weight, shape.in * shape.out, "weight");
    cpu::few_rows_product(context, shape, x, y, [&](const cpu::StagedRows& s, Index begin, Index end) {
      cpu::kernels(context).of<T>().gemv(s.x, s.k_padded, shape.tokens, w, shape.in, begin, end, s.y, shape.out);
    });
  });
}

namespace {

// Rows [begin, begin + n) back to out's type.
void unpack_int8(const ComputeContext& context, Index in, const std::int8_t* q, std::span<const float> scales,
                 Index begin, Index n, View out) {
  cpu::with_float_type(out.dtype(), "linear_forward_int8", [&](auto type) {
    using T = decltype(type);
    T* const weights = out.as<T>();
    parallel_for(context, n, 16, [&](Index first, Index last) {
      cpu::kernels(context).of<T>().unpack_int8(q + (begin + first) * in, scales.data() + begin + first, in,
                                                last - first, weights + first * in);
    });
  });
}

}  // namespace

void linear_forward_int8(const ComputeContext& context, LinearShape shape, ConstView x, ConstView q,
                         std::span<const float> scales, View y) {
  if (shape.tokens == 0) return;
  if (const DeviceOps* device = context.device_ops()) return device->linear_forward_int8(shape, x, q, scales, y);
  cpu::check_size(scales.size(), shape.out, "scales");
  const std::int8_t* w = cpu::elements<std::int8_t>(q, shape.in * shape.out, "q");
  if (shape.tokens > kGemvTokensMax && shape.tokens <= kPanelTokensMax)
    return cpu::panel_product(context, shape, x, y, scales.data(), [&](Index begin, Index rows, float* panel) {
      cpu::kernels(context).f32.unpack_int8(w + begin * shape.in, nullptr, shape.in, rows, panel);
    });
  if (shape.tokens > kPanelTokensMax)
    return cpu::unpacked_product(context, shape, x, y, [&](Index begin, Index rows, View out) {
      unpack_int8(context, shape.in, w, scales, begin, rows, out);
    });
  cpu::few_rows_product(context, shape, x, y, [&](const cpu::StagedRows& s, Index begin, Index end) {
    cpu::kernels(context).gemv_int8(s.x, s.k_padded, shape.tokens, w, scales.data(), shape.in, begin, end, s.y,
                                    shape.out);
  });
}

}  // namespace longhaul
