#include "engine/parallel/mesh/mesh_traffic.h"

#include "engine/comm/mesh_axes.h"

namespace longhaul {
namespace {

// Under which of the plan's axes the traffic of a communicator is counted.
MeshAxis counted_as(int axis) {
  switch (axis) {
    case tensor_axis: return MeshAxis::tp;
    case context_axis: return MeshAxis::cp;
    case pipeline_axis:
    case pipeline_ends_axis: return MeshAxis::pp;
    case micro_batch_axis:
    case expert_axis:
    case expert_tensor_axis: return MeshAxis::ep;
    case replica_axis:
    case whole_axis: return MeshAxis::other;
    default: return MeshAxis::dp;
  }
}

}  // namespace

std::int64_t waited_ns(const Mesh& mesh) {
  std::uint64_t sum = 0;
  for (const Mesh::OnAxis& one : mesh.on_axes())
    sum += one.communicator->counters().waited_ns.load(std::memory_order_relaxed);
  return static_cast<std::int64_t>(sum);
}

CommunicationTable traffic_of(const Mesh& mesh) {
  CommunicationTable table;
  for (const Mesh::OnAxis& one : mesh.on_axes()) {
    AxisTraffic& traffic = table[counted_as(one.axis)];
    traffic.given += static_cast<std::int64_t>(one.communicator->counters().given.load(std::memory_order_relaxed));
    traffic.sent += static_cast<std::int64_t>(one.communicator->counters().sent.load(std::memory_order_relaxed));
  }
  return table;
}

}  // namespace longhaul
