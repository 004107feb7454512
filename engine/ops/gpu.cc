#include "engine/ops/gpu.h"

#include "base/process/process.h"
#include "base/text/text.h"

namespace longhaul {

Result<std::unique_ptr<Gpu>> open_device(const std::string& device, const OpenGpu& open, int local_rank, bool shared) {
  if (device == "cpu") return std::unique_ptr<Gpu>();
  if (device != "gpu") return make_error(ErrorCode::invalid_input, "device " + device, "use cpu or gpu");
  if (!open)
    return make_error(ErrorCode::unsupported, "device = \"gpu\", but this engine was built without CUDA",
                      "build it where nvcc is (-DLONGHAUL_CUDA=ON), or set device = \"cpu\"");
  Result<std::unique_ptr<Gpu>> gpu = open(local_rank, shared);
  if (gpu.ok()) return gpu;
  return gpu.error().with_context(format("device = \"gpu\", rank {} of those on host {}", local_rank, host_name()));
}

}  // namespace longhaul
