#include "engine/ops/gemv.h"

#include <algorithm>

#include "base/text.h"
#include "engine/core/parallel_for.h"
#include "engine/ops/cpu/dispatch.h"
#include "engine/ops/cpu/kernels.h"
#include "engine/ops/device_ops.h"

namespace longhaul {
namespace {

using cpu::Index;

// x in f32 with rows padded to 16, and a place for the f32 result: both in scratch.
struct Staged {
  float *x, *y;
  Index k_padded;
};
Staged stage(const ComputeContext& context, LinearShape shape, ConstView x) {
  Staged staged{};
  staged.k_padded = (shape.in + 15) / 16 * 16;
  const Index x_size = shape.tokens * staged.k_padded;
  staged.x = reinterpret_cast<float*>(context.scratch(0, (x_size + shape.tokens * shape.out) * 4));
  staged.y = staged.x + x_size;
  std::fill(staged.x, staged.y, 0.0F);
  cpu::with_float_type(x.dtype(), "gemv", [&](auto type) {
    using T = decltype(type);
    const T* px = cpu::elements<T>(x, shape.tokens * shape.in, "x");
    for (Index t = 0; t < shape.tokens; ++t) {
      cpu::kernels(context).of<T>().to_f32(px + t * shape.in, staged.x + t * staged.k_padded, shape.in);
    }
  });
  return staged;
}
void unstage(const ComputeContext& context, LinearShape shape, const float* result, View y) {
  const Index n = shape.tokens * shape.out;
  cpu::with_float_type(y.dtype(), "gemv", [&](auto type) {
    using T = decltype(type);
    cpu::kernels(context).of<T>().from_f32(result, cpu::elements<T>(y, n, "y"), n);
  });
}
Index grain(LinearShape shape) {
  return std::max<Index>(8, 65536 / std::max<Index>(1, shape.in));
}

}  // namespace

void gemv(const ComputeContext& context, LinearShape shape, ConstView x, ConstView weight, View y) {
  LH_ASSERT(shape.tokens <= kGemvTokensMax, format("{} tokens, at most {}", shape.tokens, kGemvTokensMax));
  if (shape.tokens == 0) return;
  if (const DeviceOps* device = context.device_ops()) return device->gemv(shape, x, weight, y);
  const Staged staged = stage(context, shape, x);
  cpu::with_float_type(weight.dtype(), "gemv", [&](auto type) {
    using T = decltype(type);
    const T* w = cpu::elements<T>(weight, shape.in * shape.out, "weight");
    parallel_for(context, shape.out, grain(shape), [&](Index begin, Index end) {
      cpu::kernels(context).of<T>().gemv(staged.x, staged.k_padded, shape.tokens, w, shape.in, begin, end, staged.y,
                                         shape.out);
    });
  });
  unstage(context, shape, staged.y, y);
}

namespace {

// A block of output channels: weights back to x's type, then a GEMM into that block's columns of y.
template <class T>
void dequantized_gemm(const ComputeContext& context, LinearShape shape, ConstView x, const std::int8_t* q,
                      std::span<const float> scales, View y) {
  const Index block = std::min<Index>(shape.out, 512);
  auto* weights = reinterpret_cast<T*>(context.scratch(0, block * shape.in * static_cast<Index>(sizeof(T))));
  for (Index begin = 0; begin < shape.out; begin += block) {
    const Index n = std::min(block, shape.out - begin);
    parallel_for(context, n, 16, [&](Index first, Index last) {
      for (Index row = first; row < last; ++row) {
        const float factor = scales[static_cast<std::size_t>(begin + row)];
        for (Index i = 0; i < shape.in; ++i) {
          weights[row * shape.in + i] = T(static_cast<float>(q[(begin + row) * shape.in + i]) * factor);
        }
      }
    });
    GemmShape g{.m = shape.tokens, .n = n, .k = shape.in};
    g.transpose_b = true;
    g.row_stride_c = shape.out;
    const Index size = (shape.tokens - 1) * shape.out + n;
    const View out =
        y.dtype() == DType::f32 ? View(y.as<float>() + begin, Shape{size}) : View(y.as<bf16>() + begin, Shape{size});
    gemm(context, g, x, ConstView(weights, Shape{n, shape.in}), out);
  }
}

}  // namespace

void linear_forward_int8(const ComputeContext& context, LinearShape shape, ConstView x, ConstView q,
                         std::span<const float> scales, View y) {
  if (shape.tokens == 0) return;
  if (const DeviceOps* device = context.device_ops()) return device->linear_forward_int8(shape, x, q, scales, y);
  cpu::check_size(scales.size(), shape.out, "scales");
  const std::int8_t* w = cpu::elements<std::int8_t>(q, shape.in * shape.out, "q");
  if (shape.tokens > kGemvTokensMax) {
    return cpu::with_float_type(x.dtype(), "linear_forward_int8",
                                [&](auto type) { dequantized_gemm<decltype(type)>(context, shape, x, w, scales, y); });
  }
  const Staged staged = stage(context, shape, x);
  parallel_for(context, shape.out, grain(shape), [&](Index begin, Index end) {
    cpu::kernels(context).gemv_int8(staged.x, staged.k_padded, shape.tokens, w, scales.data(), shape.in, begin, end,
                                    staged.y, shape.out);
  });
  unstage(context, shape, staged.y, y);
}

}  // namespace longhaul
