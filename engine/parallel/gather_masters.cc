#include "engine/parallel/gather_masters.h"

#include <algorithm>

#include "engine/parallel/box_copy.h"

namespace longhaul {

namespace {

// All that this rank's model has of one unit.
Status gather_unit(Mesh& mesh, const ParameterLayout& layout, std::size_t unit, std::span<const float> masters,
                   std::vector<float>& all) {
  all.resize(static_cast<std::size_t>(layout.units()[unit].flat.size()));
  const std::span<const float> mine = part_of(masters, layout.owned().pieces()[unit].packed());
  if (mine.size() < all.size()) return mesh.shard(layout.units()[unit].experts).all_gather(mine, std::span<float>(all));
  std::copy(mine.begin(), mine.end(), all.begin());
  return {};
}

}  // namespace

// Tensor by tensor: beside the result no more is held than the largest one, once per rank of the group, and a unit.
Status gather_masters(Mesh& mesh, const ModelShape& shape, const ParameterLayout& layout,
                      std::span<const float> masters, const ParameterLayout& whole_layout, std::span<float> whole) {
  CollectiveGroup& ranks = mesh.whole();
  const std::vector<RankCoordinates> coordinates = mesh.whole_coordinates();
  std::vector<float> mine, all, unit_values;
  std::size_t unit = layout.units().size();  // whose values unit_values has
  for (const FlatParameter& target : whole_layout.parameters()) {
    std::vector<Box> boxes;
    for (const RankCoordinates& at : coordinates)
      boxes.push_back(shard_of(target.spec, shape, mesh.dims(), at, layout.stages()));
    std::int64_t longest = 0;  // shards may differ by a row, and some ranks hold none: all send as much
    for (const Box& box : boxes) longest = std::max(longest, box.elements());
    mine.assign(static_cast<std::size_t>(longest), 0.0F);
    if (const FlatParameter* p = layout.find_if_held(target.spec.name)) {
      std::size_t its = 0;
      while (layout.units()[its].flat.end <= p->begin) ++its;
      if (unit != its) LH_CHECK(gather_unit(mesh, layout, its, masters, unit_values));
      unit = its;
      const std::int64_t begin = p->begin - layout.units()[unit].flat.begin;
      std::copy_n(unit_values.begin() + begin, p->end - p->begin, mine.begin());
    }
    all.resize(mine.size() * boxes.size());
    LH_CHECK(ranks.all_gather(std::span<const float>(mine), std::span<float>(all)));
    const auto out =
        whole.subspan(static_cast<std::size_t>(target.begin), static_cast<std::size_t>(target.end - target.begin));
    for (std::size_t r = 0; r < boxes.size(); ++r) {
      const std::int64_t count = boxes[r].elements();
      const std::span<const float> piece(all.data() + r * mine.size(), static_cast<std::size_t>(count));
      copy_between_boxes(piece, boxes[r], 0, count, target.box, out);
    }
  }
  return {};
}

}  // namespace longhaul
