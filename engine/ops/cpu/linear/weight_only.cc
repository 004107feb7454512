#include "engine/ops/linear/weight_only.h"

#include <algorithm>

#include "base/text/text.h"
#include "engine/core/tensor/parallel_for.h"
#include "engine/ops/cpu/simd/few_rows.h"
#include "engine/ops/device_ops.h"

namespace longhaul {
namespace {

using cpu::Index;

// The weight's parts, of which there must be enough for rows [0, out).
cpu::Int4Rows rows_of(Index out, Index in, const Int4View& w) {
  LH_ASSERT(w.group >= 2 && w.group % 2 == 0, format("groups of {}", w.group));
  const Index groups = int4_groups(in, w.group);
  cpu::Int4Rows rows{{}, int4_row_bytes(in), groups};
  rows.first.codes = cpu::elements<std::uint8_t>(w.packed, out * rows.row_bytes, "packed");
  cpu::with_float_type(w.scales.dtype(), "scales of int4", [&](auto type) {
    using T = decltype(type);
    const T* const scales = cpu::elements<T>(w.scales, out * groups, "scales");
    if constexpr (std::is_same_v<T, float>)
      rows.first.scales_f32 = scales;
    else
      rows.first.scales_b16 = scales;
  });
  if (!w.zeros.empty()) rows.first.zeros = cpu::elements<std::uint8_t>(w.zeros, out * groups, "zeros");
  rows.first.group = w.group;
  return rows;
}

}  // namespace

void unpack_fp8(const ComputeContext& context, Index in, ConstView codes, std::span<const float> scales, Index begin,
                Index rows, View out) {
  const std::uint8_t* const from = cpu::elements<std::uint8_t>(codes, (begin + rows) * in, "codes") + begin * in;
  cpu::with_float_type(out.dtype(), "unpack_fp8", [&](auto type) {
    using T = decltype(type);
    T* const to = cpu::elements<T>(out, rows * in, "out");
    parallel_for(context, rows, 16, [&](Index first, Index last) {
      cpu::kernels(context).of<T>().unpack_fp8(from + first * in, scales.data() + begin + first, in, last - first,
                                               to + first * in);
    });
  });
}

void unpack_int4(const ComputeContext& context, Index in, const Int4View& weight, Index begin, Index rows, View out) {
  const cpu::Int4Rows all = rows_of(begin + rows, in, weight);
  cpu::with_float_type(out.dtype(), "unpack_int4", [&](auto type) {
    using T = decltype(type);
    T* const to = cpu::elements<T>(out, rows * in, "out");
    parallel_for(context, rows, 16, [&](Index first, Index last) {
      cpu::kernels(context).of<T>().unpack_int4(all, in, begin + first, last - first, to + first * in);
    });
  });
}

void linear_forward_fp8(const ComputeContext& context, LinearShape shape, ConstView x, ConstView codes,
                        std::span<const float> scales, View y) {
  if (shape.tokens == 0) return;
  if (const DeviceOps* device = context.device_ops()) return device->linear_forward_fp8(shape, x, codes, scales, y);
  cpu::check_size(scales.size(), shape.out, "scales");
  const auto* const w = cpu::elements<std::uint8_t>(codes, shape.in * shape.out, "codes");
  if (shape.tokens > kGemvTokensMax && shape.tokens <= kPanelTokensMax)
    return cpu::panel_product(context, shape, x, y, scales.data(), [&](Index begin, Index rows, float* panel) {
      cpu::kernels(context).f32.unpack_fp8(w + begin * shape.in, nullptr, shape.in, rows, panel);
    });
  if (shape.tokens > kPanelTokensMax)
    return cpu::unpacked_product(context, shape, x, y, [&](Index begin, Index rows, View out) {
      unpack_fp8(context, shape.in, codes, scales, begin, rows, out);
    });
  cpu::few_rows_product(context, shape, x, y, [&](const cpu::StagedRows& s, Index begin, Index end) {
    cpu::kernels(context).gemv_fp8(s.x, s.k_padded, shape.tokens, w, scales.data(), shape.in, begin, end, s.y,
                                   shape.out);
  });
}

void linear_forward_int4(const ComputeContext& context, LinearShape shape, ConstView x, const Int4View& weight,
                         View y) {
  if (shape.tokens == 0) return;
  if (const DeviceOps* device = context.device_ops()) return device->linear_forward_int4(shape, x, weight, y);
  const cpu::Int4Rows rows = rows_of(shape.out, shape.in, weight);
  if (shape.tokens > kGemvTokensMax && shape.tokens <= kPanelTokensMax)
    return cpu::panel_product(context, shape, x, y, nullptr, [&](Index begin, Index count, float* panel) {
      cpu::kernels(context).f32.unpack_int4(rows, shape.in, begin, count, panel);
    });
  if (shape.tokens > kPanelTokensMax)
    return cpu::unpacked_product(context, shape, x, y, [&](Index begin, Index count, View out) {
      unpack_int4(context, shape.in, weight, begin, count, out);
    });
  cpu::few_rows_product(context, shape, x, y, [&](const cpu::StagedRows& s, Index begin, Index end) {
    cpu::kernels(context).gemv_int4(s.x, s.k_padded, shape.tokens, rows, shape.in, begin, end, s.y, shape.out);
  });
}

}  // namespace longhaul
