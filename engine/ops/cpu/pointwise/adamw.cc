#include "engine/ops/pointwise/adamw.h"

#include <algorithm>
#include <cmath>

#include "engine/core/tensor/parallel_for.h"
#include "engine/ops/cpu/simd/dispatch.h"
#include "engine/ops/cpu/simd/kernels.h"
#include "engine/ops/device_ops.h"

namespace longhaul {
namespace {

cpu::AdamWFactors factors_of(const AdamWStep& step) {
  LH_ASSERT(step.step >= 1, std::to_string(step.step));
  const double t = static_cast<double>(step.step);
  return {
      static_cast<float>(1.0 - step.lr * step.weight_decay),
      static_cast<float>(step.beta1),
      static_cast<float>(step.beta2),
      static_cast<float>(step.lr / (1.0 - std::pow(step.beta1, t))),
      static_cast<float>(1.0 / std::sqrt(1.0 - std::pow(step.beta2, t))),
      static_cast<float>(step.eps),
      step.grad_scale,
  };
}

cpu::AdamWKernel kernel_for(const cpu::Kernels& kernels, DType m, DType v) {
  if (m == DType::f32 && v == DType::f32) return kernels.adamw_f32_f32;
  LH_ASSERT(m == DType::bf16 && (v == DType::bf16 || v == DType::f32),
            std::string("moments in ") + dtype_name(m) + " and " + dtype_name(v));
  return v == DType::bf16 ? kernels.adamw_bf16_bf16 : kernels.adamw_bf16_f32;
}

std::byte* at(const View& view, std::int64_t i) {
  return static_cast<std::byte*>(view.data()) + i * dtype_bytes(view.dtype());
}

}  // namespace

void adamw_update(const ComputeContext& context, const AdamWStep& step, std::span<float> master, View m, View v,
                  std::span<const float> grad, View compute_copy, const AdamWRounding* rounding) {
  if (const DeviceOps* device = context.device_ops())
    return device->adamw_update(step, master, m, v, grad, compute_copy, rounding);
  using cpu::Index;
  const auto n = static_cast<Index>(master.size());
  if (n == 0) return;
  cpu::check_size(static_cast<std::size_t>(m.size()), n, "m");
  cpu::check_size(static_cast<std::size_t>(v.size()), n, "v");
  cpu::check_size(grad.size(), n, "grad");
  LH_ASSERT(compute_copy.empty() || compute_copy.size() == n, compute_copy.shape().text());
  const cpu::AdamWFactors factors = factors_of(step);
  const cpu::AdamWKernel kernel = kernel_for(cpu::kernels(context), m.dtype(), v.dtype());
  bf16* narrow = nullptr;
  float* wide = nullptr;
  if (!compute_copy.empty()) {
    if (compute_copy.dtype() == DType::bf16) {
      narrow = compute_copy.as<bf16>();
    } else {
      wide = compute_copy.as<float>();
    }
  }
  const auto update = [&](Index begin, Index end, const Philox* random, Index first) {
    kernel(factors, master.data() + begin, at(m, begin), at(v, begin), grad.data() + begin,
           narrow == nullptr ? nullptr : narrow + begin, wide == nullptr ? nullptr : wide + begin, random, first,
           end - begin);
  };
  parallel_for(context, n, 8192, [&](Index begin, Index end) {
    if (rounding == nullptr) return update(begin, end, nullptr, 0);
    const ElementOrder& order = rounding->order;
    while (begin < end) {  // neighbours in the global tensor
      const Index in_box = rounding->begin + begin, row_end = begin + (order.width - in_box % order.width);
      const Index stop = std::min(end, row_end);
      update(begin, stop, &rounding->random, order.index(in_box));
      begin = stop;
    }
  });
}

}  // namespace longhaul
