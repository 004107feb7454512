#include "engine/ops/attention/softmax.h"

#include "engine/core/tensor/parallel_for.h"
#include "engine/ops/cpu/simd/dispatch.h"
#include "engine/ops/cpu/simd/kernels.h"
#include "engine/ops/device_ops.h"

namespace longhaul {

void softmax_rows(const ComputeContext& context, std::int64_t rows, std::int64_t columns, ConstView logits,
                  float temperature, std::span<float> probabilities) {
  if (const DeviceOps* device = context.device_ops())
    return device->softmax_rows(rows, columns, logits, temperature, probabilities);
  LH_ASSERT(temperature > 0.0F, std::to_string(temperature));
  cpu::check_size(probabilities.size(), rows * columns, "probabilities");
  cpu::with_float_type(logits.dtype(), "softmax", [&](auto type) {
    using T = decltype(type);
    const T* z = cpu::elements<T>(logits, rows * columns, "logits");
    parallel_for(context, rows, 8, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) {
        cpu::kernels(context).of<T>().softmax(z + r * columns, columns, 1.0F / temperature,
                                              probabilities.data() + r * columns);
      }
    });
  });
}

}  // namespace longhaul
