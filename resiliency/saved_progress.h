// What progress is, in one place for the controller (a new job), the lead (a new launch) and the simulator: a whole
// checkpoint (its checkpoint.json is there) of a greater step than any that the stage has had before. Neither steps
// that are lost with their ranks, nor copies on nodes, nor files that change for other reasons are progress. Pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

namespace longhaul {

inline constexpr std::int64_t no_saved_step = -1;

inline bool got_further(std::int64_t newest_whole, std::int64_t furthest_before) {
  return newest_whole > furthest_before;
}

// The whole checkpoints of one stage as they are reported, in order.
class SavedProgress {
 public:
  // `known`: of what was there before; no_saved_step: nothing.
  explicit SavedProgress(std::int64_t known = no_saved_step) : newest_(known), furthest_(known) {}

  // A whole checkpoint of this step is there. True: that is progress.
  bool saw(std::int64_t step) {
    const bool further = got_further(step, furthest_);
    newest_ = std::max(newest_, step);
    furthest_ = std::max(furthest_, step);
    return further;
  }
  // Checkpoints of later steps count no more: weights that may be wrong, a training that went back.
  void rule_out_after(std::int64_t step) { newest_ = std::min(newest_, std::max(step, no_saved_step)); }

  std::int64_t newest() const { return newest_; }      // that counts
  std::int64_t furthest() const { return furthest_; }  // ever

 private:
  std::int64_t newest_, furthest_;
};

// What a stage kept when one of its jobs had ended.
struct SavedState {
  std::int64_t step = no_saved_step;  // of the newest whole checkpoint
  // Of a program that is not ours and reports no checkpoints: a digest of what it keeps, "" for nothing.
  std::string contents = {};
  std::int64_t reached = -1;  // newest step that its heartbeats reported; -1: none
};

// `before`: the greatest steps of all jobs before, and the contents after the last of them. Of a foreign program that
// reports no checkpoints nothing but its files can be seen: they must differ, and where its heartbeats report steps it
// must have come further as well, for one that writes the same files at every start runs in a circle.
inline bool made_progress(const SavedState& now, const SavedState& before) {
  if (now.step > no_saved_step || before.step > no_saved_step) return got_further(now.step, before.step);
  const bool repeats = now.reached >= 0 && now.reached <= before.reached;
  return !now.contents.empty() && now.contents != before.contents && !repeats;
}

}  // namespace longhaul
