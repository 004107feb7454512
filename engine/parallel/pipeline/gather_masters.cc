#include "engine/parallel/pipeline/gather_masters.h"

#include <algorithm>

#include "engine/core/device/device.h"
#include "engine/core/tensor/transfer.h"
#include "engine/ops/pointwise/row_blocks.h"
#include "engine/parallel/mesh/box_copy.h"
#include "engine/parallel/mesh/part_copy.h"

namespace longhaul {

void MasterShare::read(FlatRange packed, std::span<float> out) const {
  const std::span<const float> from = part_of(values_, packed);
  LH_ASSERT(from.size() == out.size(), std::to_string(out.size()));
  if (device_ && !out.empty())
    device_->copy_out(from.data(), out.data(), static_cast<std::int64_t>(out.size_bytes()));
  else
    std::copy(from.begin(), from.end(), out.begin());
}

namespace {

// All that this rank's model has of one unit.
Status gather_unit(Mesh& mesh, const ParameterLayout& layout, std::size_t unit, const MasterShare& masters,
                   std::vector<float>& all) {
  all.resize(static_cast<std::size_t>(layout.units()[unit].flat.size()));
  const FlatRange mine = layout.owned().pieces()[unit].packed();
  if (mine.size() == std::ssize(all)) {
    masters.read(mine, all);
    return {};
  }
  std::vector<float> share(static_cast<std::size_t>(mine.size()));
  masters.read(mine, share);
  return mesh.shard(layout.units()[unit].experts).all_gather(std::span<const float>(share), std::span<float>(all));
}

// This rank's box of one parameter after the other, from the shares of its unit.
class HeldBoxes {
 public:
  HeldBoxes(Mesh& mesh, const ParameterLayout& layout, const MasterShare& masters)
      : mesh_(mesh), layout_(layout), masters_(masters), unit_(layout.units().size()) {}
  // Collective over the ranks that share the optimizer.
  Result<std::span<const float>> of(const FlatParameter& parameter) {
    std::size_t its = 0;
    while (layout_.units()[its].flat.end <= parameter.begin) ++its;
    if (unit_ != its) LH_CHECK(gather_unit(mesh_, layout_, its, masters_, values_));
    unit_ = its;
    const std::int64_t begin = parameter.begin - layout_.units()[unit_].flat.begin;
    return part_of(std::span<const float>(values_), {begin, begin + parameter.end - parameter.begin});
  }

 private:
  Mesh& mesh_;
  const ParameterLayout& layout_;
  MasterShare masters_;
  std::size_t unit_;  // whose values values_ has
  std::vector<float> values_;
};

}  // namespace

// Tensor by tensor: beside the result no more is held than the largest one, once per rank of the group, and a unit.
Status gather_parameters(Mesh& mesh, const ModelShape& shape, const ParameterLayout& layout, const HeldParameter& held,
                         const ParameterLayout& target_layout, std::span<float> target) {
  CollectiveGroup& ranks = mesh.whole();
  const std::vector<RankCoordinates> coordinates = mesh.whole_coordinates();
  const ParameterNames names(layout), wanted(target_layout);
  std::vector<float> mine, all;
  for (const ParameterSpec& spec : parameter_list(shape)) {
    std::vector<Box> boxes;
    for (const RankCoordinates& at : coordinates)
      boxes.push_back(shard_of(spec, shape, mesh.dims(), at, layout.stages()));
    std::int64_t longest = 0;  // shards may differ by a row, and some ranks hold none: all send as much
    for (const Box& box : boxes) longest = std::max(longest, box.elements());
    mine.assign(static_cast<std::size_t>(longest), 0.0F);
    if (const FlatParameter* p = names.find_if_held(spec.name)) {
      LH_TRY(const std::span<const float> values, held(*p));
      std::copy(values.begin(), values.end(), mine.begin());
    }
    all.resize(mine.size() * boxes.size());
    LH_CHECK(ranks.all_gather(std::span<const float>(mine), std::span<float>(all)));
    const FlatParameter* const here = wanted.find_if_held(spec.name);
    if (here == nullptr) continue;
    const std::span<float> out = part_of(target, {here->begin, here->end});
    for (std::size_t r = 0; r < boxes.size(); ++r) {
      const std::int64_t count = boxes[r].elements();
      const std::span<const float> piece(all.data() + r * mine.size(), static_cast<std::size_t>(count));
      copy_between_boxes(piece, boxes[r], 0, count, here->box, out);
    }
  }
  return {};
}

Status gather_masters(Mesh& mesh, const ModelShape& shape, const ParameterLayout& layout, const MasterShare& masters,
                      const ParameterLayout& target_layout, std::span<float> target) {
  HeldBoxes boxes(mesh, layout, masters);
  return gather_parameters(
      mesh, shape, layout, [&](const FlatParameter& parameter) { return boxes.of(parameter); }, target_layout, target);
}

namespace {

// Ranks of the whole model that together hold a parameter, one for each different box.
std::vector<std::pair<int, Box>> holders_of(const ParameterSpec& spec, const ModelShape& shape, const Mesh& mesh,
                                            const StageLayout& stages) {
  const std::vector<RankCoordinates> ranks = mesh.whole_coordinates();
  std::vector<std::pair<int, Box>> holders;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    Box box = shard_of(spec, shape, mesh.dims(), ranks[r], stages);
    const bool known = std::any_of(holders.begin(), holders.end(), [&](const auto& holder) {
      return holder.second.offset == box.offset && holder.second.extent == box.extent;
    });
    if (box.elements() > 0 && !known) holders.emplace_back(static_cast<int>(r), std::move(box));
  }
  return holders;
}

// Parts of one parameter after the other, from the rank that has it to all, each of which keeps what it wants of it.
class PartSpread {
 public:
  PartSpread(const ComputeContext& context, CollectiveGroup& ranks, View target, MemoryAccount* memory)
      : context_(context), ranks_(ranks), target_(target), memory_(memory) {}

  // `mine`: on the rank `from` the part itself. `wanted`: of this rank; null: nothing. Collective.
  Status spread(const FlatParameter* wanted, const Box& part, int from, ConstView mine) {
    const std::int64_t count = part.elements();
    if (const View place = range_of(wanted, part); !place.empty()) return send(place, from, mine);
    if (passing_.size() < count) passing_ = Tensor(), passing_ = Tensor(target_.dtype(), {count}, memory_);
    const View packed = passing_.view().rows(0, count);
    LH_CHECK(send(packed, from, mine));
    if (wanted == nullptr) return {};
    copy_part(context_, packed, part, wanted->box, target_.rows(wanted->begin, wanted->end));
    return {};
  }

 private:
  // Where all of the part lies side by side in what is wanted; empty: nowhere.
  View range_of(const FlatParameter* wanted, const Box& box) const {
    if (wanted == nullptr) return {};
    const MatrixPart part(box), to(wanted->box);
    const bool inside = part.row >= to.row && part.row + part.rows <= to.row + to.rows && part.column >= to.column &&
                        part.column + part.columns <= to.column + to.columns;
    if (!inside || (part.rows > 1 && part.columns != to.columns)) return {};
    return elements_from(target_, wanted->begin + to.place(part.row, part.column)).rows(0, box.elements());
  }
  Status send(View data, int from, ConstView mine) {
    if (ranks_.rank() == from) copy_within(context_, mine, data);
    return ranks_.broadcast({static_cast<std::byte*>(data.data()), static_cast<std::size_t>(data.bytes())}, from);
  }

  const ComputeContext& context_;
  CollectiveGroup& ranks_;
  View target_;
  MemoryAccount* memory_;
  Tensor passing_;  // a part on its way
};

}  // namespace

Status gather_parameters(const ComputeContext& context, Mesh& mesh, const ModelShape& shape,
                         const ParameterLayout& layout, const HeldView& held, const ParameterLayout& target_layout,
                         View target, MemoryAccount* memory) {
  const ParameterNames names(layout), wanted(target_layout);
  PartSpread parts(context, mesh.whole(), target, memory);
  for (const ParameterSpec& spec : parameter_list(shape)) {
    const FlatParameter* const p = names.find_if_held(spec.name);
    const ConstView mine = p ? held(*p) : ConstView();
    for (const auto& [rank, part] : holders_of(spec, shape, mesh, layout.stages()))
      LH_CHECK(parts.spread(wanted.find_if_held(spec.name), part, rank, mine));
  }
  return {};
}

namespace {

// Of the first ranks that hold the whole model.
bool is_of_first_whole(const Mesh& mesh) {
  return global_rank_of(mesh.dims(), mesh.whole_coordinates().front()) == 0;
}

// Another rank's part in it: where ranks share what is held, it gives its share to those that gather.
bool only_gives(const Mesh& mesh, const ModelShape& shape, bool shared) {
  return shared && (shape.is_moe() || mesh.at().dp_replicate == 0);
}

// `held` is collective over the ranks that share an optimizer where `shared`.
Status gather_each(Mesh& mesh, const ModelShape& shape, const ParameterLayout& layout, const HeldParameter& held,
                   bool shared, const TakeParameter& take) {
  const bool gathers = is_of_first_whole(mesh);
  if (!gathers && !only_gives(mesh, shape, shared)) return {};
  CollectiveGroup& ranks = mesh.whole();
  const ParameterNames names(layout);
  std::vector<float> whole, piece;
  Status taken;
  for (const ParameterSpec& spec : parameter_list(shape)) {
    std::span<const float> mine;
    if (const FlatParameter* p = names.find_if_held(spec.name)) {
      LH_TRY(mine, held(*p));
    }
    if (!gathers) continue;
    const std::vector<std::pair<int, Box>> holders = holders_of(spec, shape, mesh, layout.stages());
    const Box target = whole_box(spec.shape);
    const bool is_here = holders.front().first == 0 && holders.front().second.extent == target.extent;
    if (ranks.is_first() && !is_here) whole.resize(static_cast<std::size_t>(target.elements()));
    for (const auto& [rank, box] : holders) {
      if (rank == ranks.rank() && rank != 0) LH_CHECK(ranks.send(mine, 0));
      if (!ranks.is_first() || is_here) continue;
      piece.resize(static_cast<std::size_t>(rank == 0 ? 0 : box.elements()));
      if (rank != 0) LH_CHECK(ranks.recv(piece, rank));
      const std::span<const float> values = rank == 0 ? mine : std::span<const float>(piece);
      copy_between_boxes(values, box, 0, box.elements(), target, whole);
    }
    // After an error the others must not be left waiting: the rest is still gathered.
    if (ranks.is_first() && taken.ok()) taken = take(spec, is_here ? mine : std::span<const float>(whole));
  }
  return taken;
}

}  // namespace

Status gather_each_parameter(Mesh& mesh, const ModelShape& shape, const ParameterLayout& layout,
                             const MasterShare& masters, const TakeParameter& take) {
  HeldBoxes boxes(mesh, layout, masters);
  return gather_each(
      mesh, shape, layout, [&](const FlatParameter& parameter) { return boxes.of(parameter); }, mesh.dims().zero > 0,
      take);
}

Status gather_each_parameter(Mesh& mesh, const ModelShape& shape, const ParameterLayout& layout,
                             const HeldParameter& held, const TakeParameter& take) {
  return gather_each(mesh, shape, layout, held, mesh.dims().zero == 3, take);
}

Status gather_each_parameter(const ComputeContext& context, Mesh& mesh, const ModelShape& shape,
                             const ParameterLayout& layout, const HeldView& held, DType dtype, MemoryAccount* memory,
                             const TakeView& take) {
  const bool gathers = is_of_first_whole(mesh), takes = gathers && mesh.whole().is_first();
  if (!gathers && !only_gives(mesh, shape, mesh.dims().zero == 3)) return {};
  const ParameterNames names(layout);
  const std::vector<ParameterSpec> parameters = parameter_list(shape);
  std::int64_t largest = 0;
  for (const ParameterSpec& spec : parameters) largest = std::max(largest, spec.elements());
  Tensor whole(dtype, {takes ? largest : 0}, memory);
  PartSpread parts(context, mesh.whole(), whole.view(), memory);
  Status taken;
  for (const ParameterSpec& spec : parameters) {
    const FlatParameter* const p = names.find_if_held(spec.name);
    const ConstView mine = p ? held(*p) : ConstView();
    if (!gathers) continue;
    const FlatParameter wanted{spec, whole_box(spec.shape), 0, spec.elements()};
    for (const auto& [rank, part] : holders_of(spec, shape, mesh, layout.stages()))
      LH_CHECK(parts.spread(takes ? &wanted : nullptr, part, rank, mine));
    if (takes && taken.ok()) taken = take(spec, whole.view().rows(0, spec.elements()));
  }
  return taken;
}

}  // namespace longhaul
