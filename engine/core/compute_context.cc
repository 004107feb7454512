#include "engine/core/compute_context.h"

namespace longhaul {

ComputeContext::ComputeContext(int threads, CpuLevel level) : threads_(threads), level_(level) {
  LH_ASSERT(threads >= 1, std::to_string(threads));
}
ComputeContext::~ComputeContext() = default;

std::byte* ComputeContext::scratch(int slot, std::int64_t bytes) const {
  LH_ASSERT(slot >= 0 && slot < 4, std::to_string(slot));
  if (scratch_[slot].bytes() < bytes) {
    scratch_[slot] = Buffer();
    scratch_[slot] = Buffer(bytes);
  }
  return scratch_[slot].data();
}

std::int64_t ComputeContext::scratch_bytes() const {
  std::int64_t sum = 0;
  for (const Buffer& buffer : scratch_) sum += buffer.bytes();
  return sum;
}

}  // namespace longhaul
