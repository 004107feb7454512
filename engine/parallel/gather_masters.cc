#include "engine/parallel/gather_masters.h"

#include <algorithm>

#include "engine/parallel/box_copy.h"

namespace longhaul {

// Tensor by tensor: beside the result no more is held than the largest one, once per rank of the replica.
Status gather_masters(Mesh& mesh, const ModelShape& shape, const ParameterLayout& layout,
                      std::span<const float> masters, const ParameterLayout& whole_layout, std::span<float> whole) {
  CollectiveGroup& replica = mesh.replica();
  const std::vector<RankCoordinates> coordinates = mesh.replica_coordinates();
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
    LH_CHECK(replica.all_gather(std::span<const float>(mine), std::span<float>(all)));
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

namespace {

// Ranks of the replica that together hold a parameter, one for each different box.
std::vector<std::pair<int, Box>> holders_of(const ParameterSpec& spec, const ModelShape& shape,
                                            const ParallelDims& dims, const std::vector<RankCoordinates>& ranks) {
  std::vector<std::pair<int, Box>> holders;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    Box box = shard_of(spec, shape, dims, ranks[r]);
    const bool known = std::any_of(holders.begin(), holders.end(), [&](const auto& holder) {
      return holder.second.offset == box.offset && holder.second.extent == box.extent;
    });
    if (box.elements() > 0 && !known) holders.emplace_back(static_cast<int>(r), std::move(box));
  }
  return holders;
}

}  // namespace

Status gather_each_parameter(Mesh& mesh, const ModelShape& shape, const ParameterLayout& layout,
                             std::span<const float> masters, const TakeParameter& take) {
  CollectiveGroup& replica = mesh.replica();
  const std::vector<RankCoordinates> ranks = mesh.replica_coordinates();
  std::vector<float> whole, piece;
  Status taken;
  for (const ParameterSpec& spec : parameter_list(shape)) {
    const FlatParameter* p = layout.find_if_held(spec.name);
    const std::span<const float> mine =
        p ? masters.subspan(static_cast<std::size_t>(p->begin), static_cast<std::size_t>(p->end - p->begin))
          : std::span<const float>();
    const Box target = whole_box(spec.shape);
    if (replica.is_first()) whole.resize(static_cast<std::size_t>(target.elements()));
    for (const auto& [rank, box] : holders_of(spec, shape, mesh.dims(), ranks)) {
      if (rank == replica.rank() && rank != 0) LH_CHECK(replica.send(mine, 0));
      if (!replica.is_first()) continue;
      piece.resize(static_cast<std::size_t>(rank == 0 ? 0 : box.elements()));
      if (rank != 0) LH_CHECK(replica.recv(piece, rank));
      const std::span<const float> values = rank == 0 ? mine : std::span<const float>(piece);
      copy_between_boxes(values, box, 0, box.elements(), target, whole);
    }
    // After an error the others must not be left waiting: the rest is still gathered.
    if (replica.is_first() && taken.ok()) taken = take(spec, whole);
  }
  return taken;
}

}  // namespace longhaul
