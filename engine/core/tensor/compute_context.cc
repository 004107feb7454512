#include "engine/core/tensor/compute_context.h"

namespace longhaul {

ComputeContext::ComputeContext(int threads, CpuLevel level) : threads_(threads), level_(level) {
  LH_ASSERT(threads >= 1, std::to_string(threads));
}
ComputeContext::ComputeContext(Device& device, const DeviceOps& ops, int threads) : ComputeContext(threads) {
  device_ops_ = &ops, device_ = &device;
  scratch_place_.device = &device;
}
ComputeContext::~ComputeContext() = default;

std::byte* ComputeContext::scratch(int slot, std::int64_t bytes) const {
  LH_ASSERT(slot >= 0 && slot < 4, std::to_string(slot));
  if (scratch_[slot].bytes() < bytes) {
    scratch_[slot] = Buffer();
    scratch_[slot] = Buffer(bytes, &scratch_place_);
  }
  return scratch_[slot].data();
}

std::int64_t ComputeContext::scratch_bytes() const {
  std::int64_t sum = 0;
  for (const Buffer& buffer : scratch_) sum += buffer.bytes();
  for (const auto& lane : lanes_) sum += lane->scratch_bytes();
  return sum;
}

void ComputeContext::make_lanes() const {
  if (threads_ == 1 || !lanes_.empty()) return;
  for (int i = 0; i < threads_; ++i) lanes_.push_back(std::make_unique<ComputeContext>(1, level_));
}

const ComputeContext& ComputeContext::lane(int thread) const {
  if (threads_ == 1) return *this;
  LH_ASSERT(thread >= 0 && thread < static_cast<int>(lanes_.size()), std::to_string(thread));
  return *lanes_[static_cast<std::size_t>(thread)];
}

}  // namespace longhaul
