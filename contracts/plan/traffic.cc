#include "contracts/plan/traffic.h"

namespace longhaul {

const char* to_string(MeshAxis axis) {
  constexpr const char* names[mesh_axes] = {"tp", "cp", "pp", "ep", "dp", "other"};
  return names[static_cast<int>(axis)];
}

AxisTraffic CommunicationTable::total() const {
  AxisTraffic sum;
  for (const AxisTraffic& axis : axes) sum.given += axis.given, sum.sent += axis.sent;
  return sum;
}

CommunicationTable CommunicationTable::operator-(const CommunicationTable& other) const {
  CommunicationTable difference = *this;
  for (std::size_t i = 0; i < axes.size(); ++i)
    difference.axes[i].given -= other.axes[i].given, difference.axes[i].sent -= other.axes[i].sent;
  return difference;
}

}  // namespace longhaul
