// Decode steps that a device was asked for once and replays from then on: a step is hundreds of short kernels, which
// cost more to ask for, one by one, than to run. One recording for each number of sequences serves every step: what
// changes from step to step lies in the device's memory (step_table.h).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "engine/core/device.h"

namespace longhaul {

struct DecodeGraphCounts {
  std::int64_t recorded = 0, replayed = 0, plain = 0;  // steps; one that is recorded is replayed at once
};

class DecodeGraphs {
 public:
  // More sequences at a time are asked for plainly: their kernels are longer, and there are no more recordings than
  // this.
  static constexpr std::int64_t sequences_max = 32;

  // One step of so many sequences, of which none is longer than `longest`. `ask` asks the device for a step for
  // sequences of at most what it is given. The first step of a kind is asked for plainly and takes the memory that it
  // needs; the second is recorded.
  void run(Device& device, std::int64_t sequences, std::int64_t longest,
           const std::function<void(std::int64_t longest)>& ask);
  const DecodeGraphCounts& counts() const { return counts_; }

 private:
  struct Entry {
    std::int64_t longest = 0;  // that it serves
    std::int64_t releases =
        -1;  // of the device's memory, when it had been asked for: later ones may have moved scratch
    std::unique_ptr<DeviceRecording> recording;
  };
  std::map<std::int64_t, Entry> entries_;  // by the number of sequences
  DecodeGraphCounts counts_;
};

}  // namespace longhaul
