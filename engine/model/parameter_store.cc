#include "engine/model/parameter_store.h"

#include <algorithm>

#include "base/philox.h"
#include "engine/core/parallel_for.h"
#include "engine/ops/elementwise.h"

namespace longhaul {

ParameterStore::ParameterStore(const ModelShape& shape, DType compute, MemoryAccount* account, const MeshPlace& place)
    : shape_(shape),
      layout_(shape, place),
      compute_dtype_(compute),
      master_(DType::f32, Shape{layout_.flat_size()}, account) {
  LH_ASSERT(compute == DType::f32 || compute == DType::bf16, dtype_name(compute));
  if (compute == DType::bf16) compute_ = Tensor(compute, Shape{layout_.flat_size()}, account);
}

ConstView ParameterStore::weight(std::int64_t begin, std::int64_t rows, std::int64_t columns) const {
  const ConstView flat = compute_dtype_ == DType::f32 ? master_.view() : compute_.view();
  return flat.rows(begin, begin + rows * columns).reshaped(Shape{rows, columns});
}

ConstView ParameterStore::vector(std::int64_t begin, std::int64_t elements) const {
  const ConstView flat = compute_dtype_ == DType::f32 ? master_.view() : compute_.view();
  return flat.rows(begin, begin + elements);
}

void ParameterStore::refresh_compute_copy(const ComputeContext& context) {
  if (compute_dtype_ != DType::f32) cast(context, master_, compute_);
}

void initialize_box(const ComputeContext& context, const ParameterSpec& spec, const Box& box, std::uint64_t seed,
                    std::span<float> out) {
  LH_ASSERT(static_cast<std::int64_t>(out.size()) == box.elements(), spec.name);
  if (spec.init != ParameterSpec::Init::normal) {
    std::fill(out.begin(), out.end(), spec.init == ParameterSpec::Init::ones ? 1.0F : 0.0F);
    return;
  }
  const Philox random{seed, parameter_stream(spec.name)};
  const std::size_t dims = spec.shape.size();
  const std::int64_t width = box.extent[dims - 1];  // one run of neighbours in the global tensor
  const std::int64_t runs = width == 0 ? 0 : box.elements() / width;
  parallel_for(context, runs, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t run = begin; run < end; ++run) {
      // Global index of the run's first element: the run's number in mixed radix over the box, moved by its offset.
      std::int64_t rest = run, first = box.offset[dims - 1], stride = spec.shape[dims - 1];
      for (std::size_t dim = dims - 1; dim-- > 0;) {
        first += (box.offset[dim] + rest % box.extent[dim]) * stride;
        rest /= box.extent[dim];
        stride *= spec.shape[dim];
      }
      float* row = out.data() + run * width;
      for (std::int64_t i = 0; i < width; ++i)
        row[i] = static_cast<float>(random.normal(static_cast<std::uint64_t>(first + i)) * spec.init_std);
    }
  });
}

void initialize_parameters(const ComputeContext& context, ParameterStore& store, std::uint64_t seed) {
  for (const FlatParameter& p : store.layout().parameters()) {
    initialize_box(
        context, p.spec, p.box, seed,
        store.masters().subspan(static_cast<std::size_t>(p.begin), static_cast<std::size_t>(p.end - p.begin)));
  }
  store.refresh_compute_copy(context);
}

}  // namespace longhaul
