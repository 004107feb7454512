// What CUDA and NCCL read from the environment of a rank, and what of it could stop several ranks for ever. Pure:
// main() reads and sets.
#pragma once

#include <functional>
#include <vector>

#include "base/error/result.h"

namespace longhaul {

struct EnvironmentSetting {
  const char* name;
  const char* value;
};

// Has to stand in the environment before CUDA's first call, whatever stood there:
// - CUDA_DEVICE_MAX_CONNECTIONS: as many as there are, so that no two queues share one. Those that do may wait for each
//   other although nothing says so.
// - CUDA_MODULE_LOADING, where there are several ranks: all kernels are loaded at the start. Loading one at its first
//   use may wait for the whole GPU, and so for a collective whose other ranks wait for that kernel (CUDA's guide, "Lazy
//   loading", on kernels that run beside each other).
std::vector<EnvironmentSetting> cuda_environment(bool several_ranks);

// NCCL's variables outrank what a communicator asks for (engine/comm/nccl_lanes.h). Errors (invalid_input) name all
// that would give it more thread blocks than it may have. variable(name): its value, or null.
Status check_nccl_environment(const std::function<const char*(const char* name)>& variable);

}  // namespace longhaul
