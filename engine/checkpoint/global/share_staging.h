// Staging memory for this rank's share of a checkpoint, and the copy of the share into it. What lies on a device is
// copied by a queue of its own while the training goes on.
#pragma once

#include <memory>

#include "base/system/clock.h"
#include "engine/checkpoint/format/page_buffer.h"
#include "engine/checkpoint/global/checkpoint_share.h"

namespace longhaul {

// One thread. The memory may be read by others while no copy is under way.
class ShareStaging {
 public:
  // `compute` (threads for the copy, the device; null: one, and none) and `account` (may be null) are borrowed.
  ShareStaging(const ComputeContext* compute, MemoryAccount* account) : compute_(compute), account_(account) {}

  // At least so many bytes from now on; what it holds is lost where it has to grow. ErrorCode::unavailable: not to be
  // had.
  Status reserve(std::int64_t bytes);
  // Copies the pieces of `state`, one behind the other; a device is only asked to. reserve() came before. After an
  // error a part of it may be under way.
  Status copy(const TrainingState& state, std::span<const SharePiece> pieces);
  bool copying() const { return copied_ != nullptr; }
  // A device has been asked, and is done.
  bool copied() const { return copied_ && copied_->reached(); }
  // Nothing is under way when this comes back. A device that has not copied within the deadline ends the process, with
  // `what` in its last message.
  void wait(const Clock& clock, std::int64_t deadline_ms, const std::string& what);

  std::string_view bytes() const {
    return {reinterpret_cast<const char*>(memory_.data()), static_cast<std::size_t>(memory_.bytes())};
  }

 private:
  Device* device() const { return compute_ ? compute_->device() : nullptr; }

  const ComputeContext* compute_;
  MemoryAccount* account_;
  PageBuffer memory_;
  std::unique_ptr<DeviceQueue> queue_;  // made at the first copy of what lies on a device
  std::unique_ptr<QueueMark> copied_;   // set: asked for, and not yet waited for
};

}  // namespace longhaul
