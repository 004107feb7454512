#include "engine/model/store/parameter_store.h"

#include <algorithm>
#include <utility>

#include "base/digest/philox.h"
#include "engine/core/tensor/parallel_for.h"
#include "engine/core/tensor/transfer.h"
#include "engine/ops/pointwise/elementwise.h"

namespace longhaul {

ParameterStore::ParameterStore(const ModelShape& shape, DType compute, MemoryAccounts* memory, const MeshPlace& place)
    : ParameterStore(shape, compute, memory, place, false, "full") {}

ParameterStore ParameterStore::frozen(const ModelShape& shape, DType compute, MemoryAccounts* memory, MeshPlace place,
                                      const std::string& format) {
  if (place.dims.zero < 3) place.dims.zero = 0;  // there is no optimizer to share
  return ParameterStore(shape, compute, memory, place, true, format);
}

ParameterStore::ParameterStore(const ModelShape& shape, DType compute, MemoryAccounts* memory, const MeshPlace& place,
                               bool frozen, const std::string& format)
    : shape_(shape), layout_(shape, place), compute_dtype_(compute), memory_(memory), frozen_(frozen) {
  LH_ASSERT(compute == DType::f32 || compute == DType::bf16, dtype_name(compute));
  MemoryAccount* const weights = account_of(memory, MemoryCategory::weights);
  if (format != "full") {
    codes_ = std::make_unique<BlockCodes>(format, layout_, compute, weights);
    return;
  }
  const std::int64_t own = layout_.owned().size();
  if (compute == DType::f32 || !frozen)
    master_ = Tensor(DType::f32, Shape{own}, frozen ? weights : account_of(memory, MemoryCategory::master));
  if (compute == DType::bf16) compute_ = Tensor(compute, Shape{own}, weights);
  if (shares() && place.dims.zero < 3)
    whole_ = Tensor(compute, Shape{layout_.flat_size()}, account_of(memory, MemoryCategory::gathered_weights));
}

Device* ParameterStore::device() const {
  if (codes_) return codes_->device();
  return frozen_ ? own_weights().device() : master_.device();
}

ConstView ParameterStore::weight(std::int64_t begin, std::int64_t rows, std::int64_t columns) const {
  return vector(begin, rows * columns).reshaped(Shape{rows, columns});
}

ConstView ParameterStore::vector(std::int64_t begin, std::int64_t elements) const {
  return adapted_ ? adapted_->weights(begin, elements) : kept(begin, elements);
}

ConstView ParameterStore::kept(std::int64_t begin, std::int64_t elements) const {
  if (codes_) return codes_->kept({begin, begin + elements}, unit_of_codes({begin, begin + elements}));
  if (!shares()) return share().rows(begin, begin + elements);
  if (!gather_) {
    LH_ASSERT(!whole_.view().empty(), "weights of ZeRO 3 before the store was connected");
    return ConstView(whole_.view()).rows(begin, begin + elements);
  }
  const std::vector<ShardUnit>& units = layout_.units();
  const auto after = std::upper_bound(units.begin(), units.end(), begin,
                                      [](std::int64_t at, const ShardUnit& unit) { return at < unit.flat.begin; });
  const auto unit = after - units.begin() - 1;
  const std::int64_t at = begin - units[static_cast<std::size_t>(unit)].flat.begin;
  return gather_->require(static_cast<int>(unit)).rows(at, at + elements);
}

void ParameterStore::widen(const ComputeContext& context, FlatRange flat, View out) const {
  if (!codes_) return cast(context, kept(flat.begin, flat.size()), out);
  codes_->widen(context, flat, unit_of_codes(flat), out);
}

ConstView ParameterStore::unit_of_codes(FlatRange flat) const {
  const std::size_t unit = codes_->unit_of(flat);
  LH_ASSERT(!shares() || gather_, "codes of ZeRO 3 before the store was connected");
  if (shares()) return gather_->require(static_cast<int>(unit));
  const FlatRange bytes = codes_->units()[unit].flat;
  return share().rows(bytes.begin, bytes.end);
}

void ParameterStore::put_frozen(const ComputeContext& context, const FlatParameter& p, std::span<const float> box) {
  if (codes_) return codes_->put(context, p, box);
  Tensor& own = compute_dtype_ == DType::f32 ? master_ : compute_;
  layout_.owned().for_each_in({p.begin, p.end}, [&](FlatRange flat, FlatRange packed) {
    put_as_computed(context, part_of(box, {flat.begin - p.begin, flat.end - p.begin}),
                    own.view().rows(packed.begin, packed.end));
  });
}

void ParameterStore::put(const ComputeContext& context, const FlatParameter& p, std::span<const float> box) {
  LH_ASSERT(static_cast<std::int64_t>(box.size()) == p.end - p.begin, p.spec.name);
  ++version_;
  if (gather_) gather_->finish();  // other ranks may be reading what is written here
  if (frozen_) return put_frozen(context, p, box);
  layout_.owned().for_each_in({p.begin, p.end}, [&](FlatRange flat, FlatRange packed) {
    const std::span<float> mine = part_of(masters(), packed);
    copy_in(context, part_of(box, {flat.begin - p.begin, flat.end - p.begin}), mine);
    if (compute_dtype_ == DType::bf16) cast(context, mine, compute_.view().rows(packed.begin, packed.end));
  });
  if (!whole_.view().empty()) put_as_computed(context, box, whole_.view().rows(p.begin, p.end));
}

View ParameterStore::frozen_weights() {
  LH_ASSERT(frozen_ && !codes_ && !shares(), "only weights that nobody trains or shares are written as they lie");
  ++version_;
  return compute_dtype_ == DType::f32 ? master_.view() : compute_.view();
}

void ParameterStore::put_as_computed(const ComputeContext& context, std::span<const float> box, View weights) {
  if (device() == nullptr) return cast(context, box, weights);
  if (weights.dtype() == DType::f32) return copy_in(context, box, weights);
  const std::vector<bf16> rounded(box.begin(), box.end());  // here, so that the device has room for nothing but weights
  copy_in(context, ConstView(rounded), weights);
}

void ParameterStore::refresh_compute_copy(const ComputeContext& context) {
  if (compute_dtype_ != DType::f32) cast(context, master_, compute_);
  shares_changed();
}

void ParameterStore::connect(Mesh& mesh, bool overlap, std::function<void()> before_large) {
  if (shares())
    gather_ = std::make_unique<UnitGather>(
        codes_ ? GatheredUnits{codes_->units(), codes_->owned()} : GatheredUnits{layout_.units(), layout_.owned()},
        mesh, share(), whole_.view(), device(), overlap, std::move(before_large),
        account_of(memory_, MemoryCategory::gathered_weights));
}

void ParameterStore::shares_changed() {
  ++version_;
  if (gather_) gather_->begin();
}

void initialize_box(const ComputeContext& context, const ParameterSpec& spec, const Box& box, std::uint64_t seed,
                    std::span<float> out) {
  LH_ASSERT(static_cast<std::int64_t>(out.size()) == box.elements(), spec.name);
  const bool is_uniform = spec.init == ParameterSpec::Init::uniform;
  if (!is_uniform && spec.init != ParameterSpec::Init::normal) {
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
      for (std::int64_t i = 0; i < width; ++i) {
        const auto number = static_cast<std::uint64_t>(first + i);
        const double drawn = is_uniform ? 2 * random.uniform_double(number) - 1 : random.normal(number);
        row[i] = static_cast<float>(drawn * spec.init_std);
      }
    }
  });
}

void initialize_parameters(const ComputeContext& context, ParameterStore& store, std::uint64_t seed) {
  std::vector<float> values;
  for (const FlatParameter& p : store.layout().parameters()) {
    values.resize(static_cast<std::size_t>(p.end - p.begin));
    initialize_box(context, p.spec, p.box, seed, values);
    store.put(context, p, values);
  }
}

}  // namespace longhaul
