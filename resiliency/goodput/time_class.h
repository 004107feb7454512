// What a millisecond of a training's time was spent on: one class each (goodput_ledger.h).
#pragma once

namespace longhaul {

enum class TimeClass {
  training,          // steps done for the first time
  checkpoint_stall,  // stood still for a save
  detect,            // from a fault to its verdict
  stop,              // until the last rank of the launch was gone, and what a job does after its ranks
  start,             // until ranks run, communicators stand, and loading begins
  prepare,           // what is computed before the first step, such as the reference scores of DPO
  load,              // of a checkpoint
  recompute,         // steps that were done before
  queue,             // submitted, not started
  cores,             // the same on this machine: its cores are busy with other stages
  idle,              // nothing was asked of the scheduler
};
inline constexpr int time_classes = static_cast<int>(TimeClass::idle) + 1;
const char* to_string(TimeClass time);

}  // namespace longhaul
