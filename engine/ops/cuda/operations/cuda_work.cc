#include "engine/ops/cuda/operations/cuda_work.h"

namespace longhaul::cuda {

std::byte* CudaWork::scratch(int slot, std::int64_t bytes) const {
  if (scratch_[slot].bytes() < bytes) {
    scratch_[slot] = DeviceMemory();
    scratch_[slot] = DeviceMemory(device, bytes);
  }
  return scratch_[slot].data();
}

}  // namespace longhaul::cuda
