#include "engine/ops/pointwise/row_blocks.h"

#include <algorithm>

#include "engine/core/tensor/parallel_for.h"
#include "engine/ops/cpu/simd/dispatch.h"
#include "engine/ops/cpu/simd/kernels.h"
#include "engine/ops/device_ops.h"

namespace longhaul {
namespace {

using cpu::Index;

Index extent_of(const RowBlockShape& s, Index stride) {
  return s.rows == 0 ? 0 : (s.rows - 1) * stride + s.columns;
}
Index grain_of(const RowBlockShape& s) {
  return std::max<Index>(1, 16384 / std::max<Index>(1, s.columns));
}

}  // namespace

void copy_rows(const ComputeContext& context, const RowBlockShape& s, ConstView from, View to) {
  if (const DeviceOps* device = context.device_ops()) return device->copy_rows(s, from, to);
  cpu::with_float_type(from.dtype(), "copy_rows", [&](auto from_type) {
    cpu::with_float_type(to.dtype(), "copy_rows", [&](auto to_type) {
      using From = decltype(from_type);
      using To = decltype(to_type);
      const From* x = cpu::elements<From>(from, extent_of(s, s.from_stride), "from");
      To* y = cpu::elements<To>(to, extent_of(s, s.to_stride), "to");
      const cpu::Kernels& kernels = cpu::kernels(context);
      parallel_for(context, s.rows, grain_of(s), [&](Index begin, Index end) {
        for (Index r = begin; r < end; ++r) {
          if constexpr (std::is_same_v<From, To>)
            std::copy_n(x + r * s.from_stride, s.columns, y + r * s.to_stride);
          else if constexpr (std::is_same_v<From, float>)
            kernels.of<To>().from_f32(x + r * s.from_stride, y + r * s.to_stride, s.columns);
          else
            kernels.of<From>().to_f32(x + r * s.from_stride, y + r * s.to_stride, s.columns);
        }
      });
    });
  });
}

void add_rows(const ComputeContext& context, const RowBlockShape& s, ConstView from, std::span<float> to) {
  if (const DeviceOps* device = context.device_ops()) return device->add_rows(s, from, to);
  cpu::check_size(to.size(), extent_of(s, s.to_stride), "to");
  cpu::with_float_type(from.dtype(), "add_rows", [&](auto type) {
    using T = decltype(type);
    const T* x = cpu::elements<T>(from, extent_of(s, s.from_stride), "from");
    parallel_for(context, s.rows, grain_of(s), [&](Index begin, Index end) {
      for (Index r = begin; r < end; ++r)
        cpu::kernels(context).of<T>().accumulate_f32(x + r * s.from_stride, to.data() + r * s.to_stride, s.columns);
    });
  });
}

}  // namespace longhaul
