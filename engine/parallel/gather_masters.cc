#include "engine/parallel/gather_masters.h"

#include <algorithm>

#include "engine/parallel/box_copy.h"

namespace longhaul {

// Tensor by tensor: beside the result no more is held than the largest one, once per rank of the group.
Status gather_masters(Mesh& mesh, const ModelShape& shape, const ParameterLayout& layout,
                      std::span<const float> masters, const ParameterLayout& whole_layout, std::span<float> whole) {
  CollectiveGroup& ranks = mesh.whole();
  const std::vector<RankCoordinates> coordinates = mesh.whole_coordinates();
  std::vector<float> mine, all;
  for (const FlatParameter& target : whole_layout.parameters()) {
    std::vector<Box> boxes;
    for (const RankCoordinates& at : coordinates) boxes.push_back(shard_of(target.spec, shape, mesh.dims(), at));
    std::int64_t longest = 0;  // shards may differ by a row, and some ranks hold none: all send as much
    for (const Box& box : boxes) longest = std::max(longest, box.elements());
    mine.assign(static_cast<std::size_t>(longest), 0.0F);
    if (const FlatParameter* p = layout.find_if_held(target.spec.name))
      std::copy(masters.begin() + p->begin, masters.begin() + p->end, mine.begin());
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
