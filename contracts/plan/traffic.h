// What a rank gives to its communicators and sends to others, by axis of the mesh.
#pragma once

#include <array>
#include <cstdint>

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

}  // namespace longhaul
