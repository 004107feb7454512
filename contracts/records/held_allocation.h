// What a job's nodes cost between the end of its last rank and the end of the job, and who goes on with the run when
// that would cost too much: what leads, controllers and reports agree on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error/result.h"
#include "base/value/value.h"

namespace longhaul {

// A lead's last duty is the controller's next round (Attempt::at_end), and all nodes of its job stand idle meanwhile.
// They may do so for this many minutes of one GPU; a node without GPUs counts as one.
inline constexpr double held_gpu_minutes_max = 60;
// ... and for no longer than this, however small the job.
inline constexpr std::int64_t held_ms_max = 15 * 60'000;
// ... and for no longer than this where a small job waits behind this one that goes on with the run.
inline constexpr std::int64_t held_followed_ms_max = 12'000;

// Whether what a silent scheduler may cost is worth a small job behind the one that is to end.
inline bool is_costly_to_hold(int gpus) {
  return held_gpu_minutes_max * 60'000 < static_cast<double>(gpus) * held_ms_max;
}

// Event `allocation_held`, the last of a job whose lead drives its run.
inline constexpr const char* allocation_held_event_kind = "allocation_held";
struct AllocationHeld {
  double held_s = 0;        // from the end of the last rank to the end of the job, as its lead sees it
  double gpu_minutes = 0;   // that were held
  int gpus = 0;             // at first
  double gave_back_s = -1;  // after so long all nodes but one were given back; -1: they were not
  std::string left;         // "done", "followed", "alone": the round was made; another job makes it; nobody does
};
Value allocation_held_to_value(const AllocationHeld& held);
AllocationHeld allocation_held_from_value(const Value& value);

// driver/follower.json in the run's folder: the small job that goes on with a run driven by its leads.
struct Follower {
  std::string job;                  // its id; "" for none
  std::vector<std::string> behind;  // ids of jobs; it starts when one of them has ended
};
std::string follower_path(const std::string& run_dir);
Follower read_follower(const std::string& run_dir);  // none where there is no such file, or none that can be read
Status write_follower(const std::string& run_dir, const Follower& follower);  // none: removes the file

}  // namespace longhaul
