// What the communicators of a mesh have counted since it was made, the world's left out.
#pragma once

#include <cstdint>

#include "contracts/plan/traffic.h"
#include "engine/parallel/mesh/mesh.h"

namespace longhaul {

std::int64_t waited_ns(const Mesh& mesh);  // this rank's time of waiting for others
CommunicationTable traffic_of(const Mesh& mesh);

}  // namespace longhaul
