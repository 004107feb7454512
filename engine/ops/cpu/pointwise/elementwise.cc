#include "engine/ops/pointwise/elementwise.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "engine/core/tensor/parallel_for.h"
#include "engine/ops/cpu/simd/dispatch.h"
#include "engine/ops/cpu/simd/kernels.h"
#include "engine/ops/device_ops.h"

namespace longhaul {
namespace {

using cpu::Index;
constexpr Index kGrain = 16384;  // elements: below, a thread costs more than it gives
constexpr Index kBlock = 65536;  // elements of one partial sum

Index count(std::size_t n) {
  return static_cast<Index>(n);
}

// Partial sums of fixed blocks, added in order.
template <class F>
double blocked_sum(const ComputeContext& context, Index n, const F& part) {
  std::vector<double> parts(static_cast<std::size_t>((n + kBlock - 1) / kBlock), 0.0);
  parallel_chunks(context, n, kBlock, [&](Index begin, Index end) {
    parts[static_cast<std::size_t>(begin / kBlock)] = part(begin, end - begin);
  });
  double total = 0.0;
  for (double p : parts) total += p;
  return total;
}

}  // namespace

void add(const ComputeContext& context, ConstView a, ConstView b, View out) {
  if (const DeviceOps* device = context.device_ops()) return device->add(a, b, out);
  const Index n = out.size();
  cpu::with_float_type(out.dtype(), "add", [&](auto type) {
    using T = decltype(type);
    const T* pa = cpu::elements<T>(a, n, "a");
    const T* pb = cpu::elements<T>(b, n, "b");
    T* po = cpu::elements<T>(out, n, "out");
    parallel_for(context, n, kGrain, [&](Index begin, Index end) {
      cpu::kernels(context).of<T>().add(pa + begin, pb + begin, po + begin, end - begin);
    });
  });
}

void add_to_rows(const ComputeContext& context, ConstView x, std::int64_t rows, View y) {
  if (const DeviceOps* device = context.device_ops()) return device->add_to_rows(x, rows, y);
  const Index columns = x.size();
  cpu::with_float_type(y.dtype(), "add_to_rows", [&](auto type) {
    using T = decltype(type);
    const T* px = cpu::elements<T>(x, columns, "x");
    T* py = cpu::elements<T>(y, rows * columns, "y");
    parallel_for(context, rows, 64, [&](Index begin, Index end) {
      for (Index row = begin; row < end; ++row)
        cpu::kernels(context).of<T>().add(py + row * columns, px, py + row * columns, columns);
    });
  });
}

void axpy(const ComputeContext& context, float alpha, std::span<const float> x, std::span<float> y) {
  if (const DeviceOps* device = context.device_ops()) return device->axpy(alpha, x, y);
  cpu::check_size(x.size(), count(y.size()), "axpy x");
  parallel_for(context, count(y.size()), kGrain, [&](Index begin, Index end) {
    cpu::kernels(context).axpy(alpha, x.data() + begin, y.data() + begin, end - begin);
  });
}

void scale(const ComputeContext& context, float alpha, std::span<float> x) {
  if (const DeviceOps* device = context.device_ops()) return device->scale(alpha, x);
  parallel_for(context, count(x.size()), kGrain,
               [&](Index begin, Index end) { cpu::kernels(context).scale(alpha, x.data() + begin, end - begin); });
}

void fill(const ComputeContext& context, View x, float value) {
  if (const DeviceOps* device = context.device_ops()) return device->fill(x, value);
  cpu::with_float_type(x.dtype(), "fill", [&](auto type) {
    using T = decltype(type);
    T* p = cpu::elements<T>(x, x.size(), "x");
    parallel_for(context, x.size(), kGrain, [&](Index begin, Index end) { std::fill(p + begin, p + end, T(value)); });
  });
}

void cast(const ComputeContext& context, ConstView x, View out) {
  if (const DeviceOps* device = context.device_ops()) return device->cast(x, out);
  LH_ASSERT(x.size() == out.size(), x.shape().text() + " -> " + out.shape().text());
  parallel_for(context, out.size(), kGrain, [&](Index begin, Index end) {
    const Index n = end - begin;
    const cpu::Kernels& kernels = cpu::kernels(context);
    if (x.dtype() == DType::f32 && out.dtype() == DType::f32) {
      std::copy_n(x.as<float>() + begin, n, out.as<float>() + begin);
    } else if (x.dtype() == DType::f32) {
      kernels.b16.from_f32(x.as<float>() + begin, out.as<bf16>() + begin, n);
    } else if (out.dtype() == DType::f32) {
      kernels.b16.to_f32(x.as<bf16>() + begin, out.as<float>() + begin, n);
    } else {
      std::copy_n(x.as<bf16>() + begin, n, out.as<bf16>() + begin);
    }
  });
}

// Each branch goes into the place of its first term.
void add_along_tree(const ComputeContext& context, std::span<const std::span<float>> terms) {
  if (terms.size() <= 1) return;
  const std::size_t left = std::bit_ceil(terms.size()) / 2;
  add_along_tree(context, terms.first(left));
  add_along_tree(context, terms.subspan(left));
  axpy(context, 1.0F, terms[left], terms.front());
}

double sum_of_squares(const ComputeContext& context, std::span<const float> x) {
  if (const DeviceOps* device = context.device_ops()) return device->sum_of_squares(x);
  return blocked_sum(context, count(x.size()),
                     [&](Index begin, Index n) { return cpu::kernels(context).sum_of_squares(x.data() + begin, n); });
}

void sums_of_squares(const ComputeContext& context, std::span<const std::span<const float>> parts,
                     std::span<double> sums) {
  LH_ASSERT(parts.size() == sums.size(), "a sum for each part");
  if (const DeviceOps* device = context.device_ops()) return device->sums_of_squares(parts, sums);
  for (std::size_t i = 0; i < parts.size(); ++i) sums[i] = sum_of_squares(context, parts[i]);
}

double sum(const ComputeContext& context, std::span<const float> x) {
  if (const DeviceOps* device = context.device_ops()) return device->sum(x);
  return blocked_sum(context, count(x.size()),
                     [&](Index begin, Index n) { return cpu::kernels(context).sum(x.data() + begin, n); });
}

bool any_not_finite(const ComputeContext& context, std::span<const float> x) {
  if (const DeviceOps* device = context.device_ops()) return device->any_not_finite(x);
  // 0 * x is 0 for finite x and NaN otherwise, and NaN survives a sum.
  const double zeros = blocked_sum(context, count(x.size()), [&](Index begin, Index n) {
    float total = 0.0F;
    for (Index i = begin; i < begin + n; ++i) total += 0.0F * x[static_cast<std::size_t>(i)];
    return static_cast<double>(total);
  });
  return std::isnan(zeros);
}

float clip_scale(double norm, double max_norm) {
  if (max_norm <= 0.0) return 1.0F;
  return static_cast<float>(std::min(1.0, max_norm / (norm + 1e-6)));
}

}  // namespace longhaul
