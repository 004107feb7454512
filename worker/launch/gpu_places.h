// Where NVIDIA's GPUs of this node are, as its driver and the kernel say it in files: no library is needed, so that a
// starter inside of a container can look as well. `root` stands before all paths; "" outside of tests.
#pragma once

#include <string>
#include <vector>

#include "worker/launch/rank_cpus.h"

namespace longhaul {

struct GpuPlace {
  std::string address;  // of PCI: "0000:c1:00.0"
  std::string uuid;     // "GPU-..."
  int numa_node = -1;   // -1: not known
  CpuNumbers cpus;      // beside it
};
// Those that this process may open, in the order of their addresses, which is CUDA's among equal ones. Empty where
// there is no driver.
std::vector<GpuPlace> openable_gpus(const std::string& root);

// Those that CUDA shows to a process with this CUDA_VISIBLE_DEVICES ("": all), in its order. Empty where it names what
// is not known here, such as a part of a GPU.
std::vector<GpuPlace> visible_gpus(const std::vector<GpuPlace>& gpus, const std::string& visible_devices);

}  // namespace longhaul
