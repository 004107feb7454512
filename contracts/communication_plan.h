// What one rank of a training will send in a step, by axis of the mesh, from shapes and settings alone. Each formula
// stands in the source beside the function of the engine that sends; tests/parallel/memory_layouts_test.cc compares
// them with what the communicators counted, byte by byte, for every rank of many layouts.
//
// Left out is what the world's own communicator carries: a few numbers per step (agreement, norms, orders), checkpoints
// and evaluations. Where experts are dealt to several ranks, how many rows each gets depends on the data: planned is
// the even spread, which is exact for the sum over all ranks while no token is dropped.
#pragma once

#include <array>

#include "contracts/training_outline.h"

namespace longhaul {

enum class MeshAxis { tp, cp, pp, ep, dp, other };  // dp: also the experts' gradients and weights; other: agreement
inline constexpr int mesh_axes = 6;
const char* to_string(MeshAxis axis);

struct AxisTraffic {
  std::int64_t given = 0;  // bytes that were given to operations
  std::int64_t sent = 0;   // bytes that left the rank (bytes_sent in collective_kind.h)
  bool operator==(const AxisTraffic&) const = default;
};

struct CommunicationTable {
  std::array<AxisTraffic, mesh_axes> axes{};
  AxisTraffic& operator[](MeshAxis axis) { return axes[static_cast<std::size_t>(axis)]; }
  const AxisTraffic& operator[](MeshAxis axis) const { return axes[static_cast<std::size_t>(axis)]; }
  AxisTraffic total() const;
  CommunicationTable operator-(const CommunicationTable& other) const;
  bool operator==(const CommunicationTable&) const = default;
};

// Of a step with the largest number of micro-batches. Errors as rank_outline has them.
Result<CommunicationTable> plan_communication(const TrainingOutline& outline, const RankCoordinates& at);

}  // namespace longhaul
