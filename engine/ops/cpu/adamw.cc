#include "engine/ops/adamw.h"

#include <cmath>

#include "engine/core/parallel_for.h"
#include "engine/ops/cpu/dispatch.h"
#include "engine/ops/cpu/kernels.h"

namespace longhaul {

void adamw_update(const ComputeContext& context, const AdamWStep& step, std::span<float> master, std::span<float> m,
                  std::span<float> v, std::span<const float> grad, View compute_copy) {
  using cpu::Index;
  const auto n = static_cast<Index>(master.size());
  cpu::check_size(m.size(), n, "m");
  cpu::check_size(v.size(), n, "v");
  cpu::check_size(grad.size(), n, "grad");
  LH_ASSERT(step.step >= 1, std::to_string(step.step));
  LH_ASSERT(compute_copy.empty() || compute_copy.size() == n, compute_copy.shape().text());
  const double t = static_cast<double>(step.step);
  const cpu::AdamWFactors factors{
      static_cast<float>(1.0 - step.lr * step.weight_decay),
      static_cast<float>(step.beta1),
      static_cast<float>(step.beta2),
      static_cast<float>(step.lr / (1.0 - std::pow(step.beta1, t))),
      static_cast<float>(1.0 / std::sqrt(1.0 - std::pow(step.beta2, t))),
      static_cast<float>(step.eps),
      step.grad_scale,
  };
  bf16* narrow = nullptr;
  float* wide = nullptr;
  if (!compute_copy.empty()) {
    if (compute_copy.dtype() == DType::bf16) {
      narrow = compute_copy.as<bf16>();
    } else {
      wide = compute_copy.as<float>();
    }
  }
  parallel_for(context, n, 8192, [&](Index begin, Index end) {
    cpu::kernels(context).adamw(factors, master.data() + begin, m.data() + begin, v.data() + begin, grad.data() + begin,
                                narrow == nullptr ? nullptr : narrow + begin, wide == nullptr ? nullptr : wide + begin,
                                end - begin);
  });
}

}  // namespace longhaul
