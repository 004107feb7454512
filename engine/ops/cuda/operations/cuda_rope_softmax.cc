#include <algorithm>

#include "base/text/text.h"
#include "engine/ops/cpu/simd/dispatch.h"
#include "engine/ops/cuda/loss/loss_kernels.h"
#include "engine/ops/cuda/operations/cuda_attention_ops.h"
#include "engine/ops/cuda/pointwise/pointwise_kernels.h"
#include "engine/ops/cuda/pointwise/table_kernels.h"

namespace longhaul::cuda {

using cpu::check_size;
using cpu::elements;
using cpu::with_float_type;

void CudaAttentionOps::rope_apply(RopeShape s, const RopeTable& table, Ids positions, std::int64_t seq, View x,
                                  bool inverse) const {
  const Index row = s.heads * s.head_dim, stride = s.row_stride == 0 ? row : s.row_stride;
  LH_ASSERT(table.half_dim * 2 == s.head_dim, format("table of {}, head_dim {}", table.half_dim * 2, s.head_dim));
  LH_ASSERT(stride >= row, format("row_stride {} < {}", stride, row));
  LH_ASSERT(!positions.empty() || (seq > 0 && seq <= table.positions),
            format("seq {} in a table of {} positions", seq, table.positions));
  if (!positions.empty()) check_size(positions.size(), s.tokens, "positions");
  if (s.tokens == 0) return;
  DeviceRope& rope = ropes_[&table];
  const auto size = static_cast<Index>(table.cosines.size());
  if (rope.positions != table.positions || rope.half_dim != table.half_dim || rope.last != table.sines.back()) {
    rope.memory = DeviceMemory();
    rope.memory = DeviceMemory(work_.device, 2 * size * 4);
    rope.positions = table.positions, rope.half_dim = table.half_dim, rope.last = table.sines.back();
    work_.device.copy_in(table.cosines.data(), rope.memory.data(), size * 4);
    work_.device.copy_in(table.sines.data(), rope.memory.data() + size * 4, size * 4);
  }
  const auto* cosines = reinterpret_cast<const float*>(rope.memory.data());
  with_float_type(x.dtype(), "rope", [&](auto type) {
    using T = decltype(type);
    cuda::rope<T>(work_.stream, {s.tokens, s.heads, s.head_dim, stride, std::max<Index>(seq, 1), cosines,
                                 cosines + size, data_or_null(positions), inverse ? -1.0F : 1.0F,
                                 elements<T>(x, rows_extent(s.tokens, stride, row), "x")});
  });
}

void CudaAttentionOps::softmax_rows(std::int64_t rows, std::int64_t columns, ConstView logits, float temperature,
                                    Floats probabilities) const {
  check_size(probabilities.size(), rows * columns, "probabilities");
  with_float_type(logits.dtype(), "softmax", [&](auto type) {
    using T = decltype(type);
    cuda::softmax_rows<T>(work_.stream, rows, columns, elements<T>(logits, rows * columns, "logits"),
                          1.0F / temperature, probabilities.data());
  });
}

}  // namespace longhaul::cuda
