#include "engine/train/step/group_sums.h"

#include <algorithm>
#include <cmath>

namespace longhaul {

namespace {
std::int64_t worst_micro_batch(std::span<const double> packed) {
  std::size_t worst = 0;
  double largest = -INFINITY;
  for (std::size_t i = 0; i + packed_sums_fields <= packed.size(); i += packed_sums_fields) {
    const double loss = packed[i], count = packed[i + 1];
    if (!std::isfinite(loss)) return static_cast<std::int64_t>(i / packed_sums_fields);
    if (count > 0 && loss / count > largest) largest = loss / count, worst = i / packed_sums_fields;
  }
  return static_cast<std::int64_t>(worst);
}
}  // namespace

void pack_sums(const ObjectiveSums& sums, std::span<double> packed) {
  packed[0] = sums.loss, packed[1] = sums.count, packed[2] = sums.tokens, packed[3] = sums.computed;
  std::ranges::copy(sums.extra, packed.begin() + 4);
  packed[packed_sums_fields - 1] = sums.largest;
}

GroupSums group_sums_of(std::span<const double> packed) {
  GroupSums group;
  ObjectiveSums& sums = group.sums;
  group.worst = worst_micro_batch(packed);
  for (std::size_t i = 0; i + packed_sums_fields <= packed.size(); i += packed_sums_fields) {
    sums.loss += packed[i], sums.count += packed[i + 1], sums.tokens += packed[i + 2];
    sums.computed += packed[i + 3];
    for (std::size_t k = 0; k < objective_extras; ++k) sums.extra[k] += packed[i + 4 + k];
    sums.largest = std::max(sums.largest, packed[i + packed_sums_fields - 1]);
  }
  return group;
}

Result<GroupSums> sum_over_group(Mesh& mesh, const std::vector<ObjectiveSums>& mine, std::int64_t total) {
  CollectiveGroup& data = mesh.data();
  // Ranks that have fewer micro-batches than others contribute zeros.
  const std::size_t per_rank = static_cast<std::size_t>((total + data.size() - 1) / data.size()) * packed_sums_fields;
  std::vector<double> packed(per_rank, 0.0), all(per_rank * static_cast<std::size_t>(data.size()));
  for (std::size_t i = 0; i < mine.size(); ++i) pack_sums(mine[i], std::span(packed).subspan(i * packed_sums_fields));
  LH_CHECK(data.all_gather(std::span<const double>(packed), all));
  // The last stage of the pipeline knows the losses.
  if (const auto stages = static_cast<std::size_t>(mesh.pipeline().size()); stages > 1) {
    std::vector<double> of_stages(all.size() * stages);
    LH_CHECK(mesh.pipeline().all_gather(std::span<const double>(all), of_stages));
    std::copy(of_stages.end() - static_cast<std::ptrdiff_t>(all.size()), of_stages.end(), all.begin());
  }
  // Each rank of a cp group has the sums over its own tokens.
  if (const auto parts = static_cast<std::size_t>(mesh.context().size()); parts > 1) {
    std::vector<double> of_parts(all.size() * parts);
    LH_CHECK(mesh.context().all_gather(std::span<const double>(all), of_parts));
    for (std::size_t i = 0; i < all.size(); ++i)
      for (std::size_t part = 1; part < parts; ++part) {
        const double other = of_parts[part * all.size() + i];
        const bool is_largest = i % packed_sums_fields == packed_sums_fields - 1;
        of_parts[i] = is_largest ? std::max(of_parts[i], other) : of_parts[i] + other;
      }
    std::copy_n(of_parts.begin(), all.size(), all.begin());
  }
  return group_sums_of(all);
}

}  // namespace longhaul
