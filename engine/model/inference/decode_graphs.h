// Decode steps that a device was asked for once and replays from then on: a step is hundreds of short kernels, which
// cost more to ask for, one by one, than to run. One recording for each kind of step: what changes from step to step
// lies in the device's memory (step_table.h).
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "engine/core/device/device.h"

namespace longhaul {

struct DecodeGraphCounts {
  std::int64_t recorded = 0, replayed = 0, plain = 0;  // steps; one that is recorded is replayed at once
};

// What one recording serves.
struct DecodeKind {
  std::int64_t sequences = 0;
  std::int64_t room = 0;       // no sequence is longer: StepTable::room()
  bool draws = false;          // ends with tokens, not with logits
  bool logprobs = false;       // and with the log-probabilities of these
  const void* pool = nullptr;  // whose pages it reads; null: caches with memory of their own
  auto operator<=>(const DecodeKind&) const = default;
};

class DecodeGraphs {
 public:
  // More sequences at a time are asked for plainly: their kernels are longer, and there are fewer kinds.
  static constexpr std::int64_t sequences_max = 32;
  // Of more kinds the one that was not asked for longest goes: a recording of a large model is some megabytes.
  static constexpr std::size_t recordings_max = 64;

  // One step of a kind. The first is asked for plainly and takes the memory that it needs; the second is recorded.
  void run(Device& device, const DecodeKind& kind, const std::function<void()>& ask);
  const DecodeGraphCounts& counts() const { return counts_; }

 private:
  struct Entry {
    std::int64_t releases =
        -1;                 // of the device's memory, when it had been asked for: later ones may have moved scratch
    std::int64_t used = 0;  // when, in steps
    std::unique_ptr<DeviceRecording> recording;
  };
  void make_room();

  std::map<DecodeKind, Entry> entries_;
  std::int64_t steps_ = 0;
  DecodeGraphCounts counts_;
};

}  // namespace longhaul
