#include "contracts/layout/axis_ranks.h"

namespace longhaul {

std::vector<int> ranks_along(const ParallelDims& dims, const RankCoordinates& at, int RankCoordinates::* coordinate) {
  std::vector<int> ranks;
  for (int rank = 0; rank < dims.world_size(); ++rank) {
    RankCoordinates other = coordinates_of(dims, rank);
    other.*coordinate = at.*coordinate;
    if (other == at) ranks.push_back(rank);
  }
  return ranks;
}

std::vector<int> expert_ranks_along(const ParallelDims& dims, const RankCoordinates& at,
                                    std::initializer_list<int ExpertCoordinates::*> coordinates) {
  const ExpertCoordinates here = expert_coordinates_of(dims, at);
  std::vector<int> ranks;
  for (int rank = 0; rank < dims.world_size(); ++rank) {
    const RankCoordinates other = coordinates_of(dims, rank);
    if (other.pp != at.pp) continue;
    ExpertCoordinates there = expert_coordinates_of(dims, other);
    for (const auto coordinate : coordinates) there.*coordinate = here.*coordinate;
    if (there == here) ranks.push_back(rank);
  }
  return ranks;
}

}  // namespace longhaul
