#include "engine/checkpoint/global/share_staging.h"

#include <chrono>
#include <thread>

#include "base/text/text.h"
#include "engine/core/device/device.h"

namespace longhaul {

Status ShareStaging::reserve(std::int64_t bytes) {
  if (memory_.bytes() >= bytes) return {};
  memory_ = PageBuffer();
  LH_TRY(memory_, PageBuffer::create(bytes, account_, device()));
  return {};
}

Status ShareStaging::copy(const TrainingState& state, std::span<const SharePiece> pieces) {
  Device* const from = device();
  if (from && !queue_) {
    LH_TRY(queue_, from->queue());
  }
  if (queue_) queue_->follow_operations();
  const Status staged = stage_pieces(state, pieces, compute_, memory_.data(), queue_.get());
  if (queue_) copied_ = queue_->mark();
  return staged;
}

void ShareStaging::wait(const Clock& clock, std::int64_t deadline_ms, const std::string& what) {
  const std::int64_t deadline = clock.monotonic_ns() + deadline_ms * 1'000'000;
  while (copied_ && !copied_->reached()) {
    LH_ASSERT(clock.monotonic_ns() < deadline,
              format("{}: the device has not copied this rank's share within {} s", what, deadline_ms / 1000));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  copied_.reset();
}

}  // namespace longhaul
