#include "contracts/settings/compute_device.h"

namespace longhaul {

FieldOptions device_options() {
  return {.help = "where the ranks compute: cpu, or gpu: one GPU each, of an engine that was built with CUDA",
          .choices = {"cpu", "gpu"},
          .speed_only = true};
}

FieldOptions communicator_options() {
  return {.help =
              "between ranks with device = \"gpu\": nccl, or staged over MPI by way of the host: slow, but several "
              "ranks may share a GPU",
          .choices = {"nccl", "staged"},
          .speed_only = true};
}

Status check_device(const std::string& device, const OptimizerSettings& optimizer,
                    const CorruptionSettings& corruption) {
  if (device != "gpu") return {};
  if (optimizer.offload != "none")
    return make_error(
        ErrorCode::unsupported,
        format("device = \"gpu\" with optimizer.offload = \"{}\": on GPUs the moments stay in their memory",
               optimizer.offload),
        "leave offload out; optimizer.moments = \"bf16\" halves them, parallel.zero shares them");
  if (corruption.check == "replay")
    return make_error(ErrorCode::unsupported,
                      "device = \"gpu\" with corruption.check = \"replay\": micro-batches are computed twice on "
                      "processors only",
                      "use corruption.check = \"contributions\" or \"off\"");
  return {};
}

Status check_device(const std::string& device, const ModelShape& shape) {
  if (device != "gpu") return {};
  if (shape.is_moe())
    return make_error(ErrorCode::unsupported,
                      "device = \"gpu\" with a model with experts: their operations are there "
                      "on processors only",
                      "use device = \"cpu\", or a dense model");
  return {};
}

}  // namespace longhaul
