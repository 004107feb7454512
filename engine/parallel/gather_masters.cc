#include "engine/parallel/gather_masters.h"

#include <algorithm>

#include "engine/parallel/box_copy.h"

namespace longhaul {
namespace {

// The boxes of a parameter that the ranks of this one's tp group hold.
std::vector<Box> boxes_of_group(const Mesh& mesh, const ParameterSpec& spec, const ModelShape& shape) {
  std::vector<Box> boxes;
  for (int tp = 0; tp < mesh.dims().tp; ++tp) {
    RankCoordinates at = mesh.at();
    at.tp = tp;
    boxes.push_back(shard_of(spec, shape, mesh.dims(), at));
  }
  return boxes;
}

}  // namespace

// Tensor by tensor: beside the result no more is held than the largest one, once per rank.
Status gather_masters(Mesh& mesh, const ModelShape& shape, const ParameterLayout& layout,
                      std::span<const float> masters, const ParameterLayout& whole_layout, std::span<float> whole) {
  CollectiveGroup& tensor = mesh.tensor();
  std::vector<float> mine, all;
  for (const FlatParameter& target : whole_layout.parameters()) {
    const FlatParameter& p = layout.find(target.spec.name);
    const std::vector<Box> boxes = boxes_of_group(mesh, p.spec, shape);
    std::int64_t longest = 0;  // shards may differ by a row; all send as much
    for (const Box& box : boxes) longest = std::max(longest, box.elements());
    mine.assign(static_cast<std::size_t>(longest), 0.0F);
    std::copy(masters.begin() + p.begin, masters.begin() + p.end, mine.begin());
    all.resize(mine.size() * boxes.size());
    LH_CHECK(tensor.all_gather(std::span<const float>(mine), std::span<float>(all)));
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
