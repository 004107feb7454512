#include "engine/ops/pointwise/embedding.h"

#include <algorithm>

#include "base/text/text.h"
#include "engine/core/tensor/parallel_for.h"
#include "engine/ops/cpu/simd/dispatch.h"
#include "engine/ops/cpu/simd/kernels.h"
#include "engine/ops/device_ops.h"

namespace longhaul {
namespace {

void check_ids(EmbeddingShape shape, std::span<const std::int32_t> ids) {
  cpu::check_size(ids.size(), shape.tokens, "ids");
  for (std::int64_t t = 0; t < shape.tokens; ++t) {
    const std::int32_t id = ids[static_cast<std::size_t>(t)];
    LH_ASSERT(id >= -1 && id < shape.vocab, format("token {} has id {}, vocabulary of {}", t, id, shape.vocab));
  }
}

}  // namespace

void embedding_forward(const ComputeContext& context, EmbeddingShape shape, std::span<const std::int32_t> ids,
                       ConstView table, View out) {
  if (const DeviceOps* device = context.device_ops()) return device->embedding_forward(shape, ids, table, out);
  using cpu::Index;
  check_ids(shape, ids);
  cpu::with_float_type(table.dtype(), "embedding", [&](auto type) {
    using T = decltype(type);
    const T* rows = cpu::elements<T>(table, shape.vocab * shape.hidden, "table");
    T* po = cpu::elements<T>(out, shape.tokens * shape.hidden, "out");
    parallel_for(context, shape.tokens, 64, [&](Index begin, Index end) {
      for (Index t = begin; t < end; ++t) {
        const std::int32_t id = ids[static_cast<std::size_t>(t)];
        if (id < 0)
          std::fill_n(po + t * shape.hidden, shape.hidden, T(0.0F));
        else
          std::copy_n(rows + id * shape.hidden, shape.hidden, po + t * shape.hidden);
      }
    });
  });
}

void embedding_backward(const ComputeContext& context, EmbeddingShape shape, std::span<const std::int32_t> ids,
                        ConstView dout, std::span<float> dtable) {
  if (const DeviceOps* device = context.device_ops()) return device->embedding_backward(shape, ids, dout, dtable);
  using cpu::Index;
  check_ids(shape, ids);
  cpu::check_size(dtable.size(), shape.vocab * shape.hidden, "dtable");
  cpu::with_float_type(dout.dtype(), "embedding", [&](auto type) {
    using T = decltype(type);
    const T* rows = cpu::elements<T>(dout, shape.tokens * shape.hidden, "dout");
    const auto accumulate = cpu::kernels(context).of<T>().accumulate_f32;
    // Each thread owns a slice of the hidden dim, and walks all tokens in order.
    parallel_for(context, shape.hidden, 64, [&](Index begin, Index end) {
      for (Index t = 0; t < shape.tokens; ++t) {
        const std::int32_t id = ids[static_cast<std::size_t>(t)];
        if (id >= 0)
          accumulate(rows + t * shape.hidden + begin, dtable.data() + id * shape.hidden + begin, end - begin);
      }
    });
  });
}

}  // namespace longhaul
