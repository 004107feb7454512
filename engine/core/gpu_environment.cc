#include "engine/core/gpu_environment.h"

#include <string>

#include "base/text/text.h"

namespace longhaul {

std::vector<EnvironmentSetting> cuda_environment(bool several_ranks) {
  std::vector<EnvironmentSetting> settings = {{"CUDA_DEVICE_MAX_CONNECTIONS", "32"}};
  if (several_ranks) settings.push_back({"CUDA_MODULE_LOADING", "EAGER"});
  return settings;
}

Status check_nccl_environment(const std::function<const char*(const char*)>& variable) {
  constexpr const char* numbers_of_blocks[] = {
      "NCCL_MIN_CTAS",   "NCCL_MAX_CTAS",          "NCCL_MIN_NCHANNELS",    "NCCL_MAX_NCHANNELS", "NCCL_MIN_NRINGS",
      "NCCL_MAX_NRINGS", "NCCL_MIN_P2P_NCHANNELS", "NCCL_CGA_CLUSTER_SIZE", "NCCL_NVLS_NCHANNELS"};
  std::vector<std::string> set;
  for (const char* name : numbers_of_blocks)
    if (const char* value = variable(name)) set.push_back(format("{}={}", name, value));
  if (set.empty()) return {};
  return make_error(ErrorCode::invalid_input,
                    format("the environment has {}: NCCL takes that for every communicator, and the kernels of several "
                           "may then leave a GPU no multiprocessor for what they wait for",
                           join(set, ", ")),
                    "unset it; docs/gpu.md says how many thread blocks each communicator gets");
}

}  // namespace longhaul
