// Checkpoints and copies on the nodes of a training that goes on: one of each may be under way, which steps advance and
// ends wait for; the newest checkpoint is read back in the background where an older one is to be removed.
// When one is due is decided elsewhere (run_control.h).
#pragma once

#include <optional>

#include "engine/checkpoint/global/checkpoint_saver.h"
#include "engine/checkpoint/global/read_back.h"
#include "engine/train/loop/loop_context.h"
#include "engine/train/loop/step_requests.h"
#include "engine/train/loop/trained_state.h"

namespace longhaul {

class TrainingSaves {
 public:
  // Borrowed.
  TrainingSaves(LoopContext& context, TrainedState& state);

  // Memory for what is staged; without it saves wait for the disk.
  void reserve();
  // Begins a checkpoint of this step unless there is one; one that is still being written is waited for.
  Status save();
  // Every rank has done its part of the checkpoint under way. Collective.
  Status advance_save();
  Status finish_save();
  bool busy() const { return saver_.busy(); }
  // The checkpoint ordered last stays, whatever the rules of retention say.
  void pin();
  // Before weights and moments change.
  void finish_copy() { saver_.finish_copy(); }
  Status advance_read_back();
  Status finish_read_back();
  // Copies on the nodes: what is under way comes to its end, then perhaps the next begins. None of them ends a
  // training.
  Status copy_on_nodes(bool advance, bool due);

  // What is under way; what of it this rank has not done yet, and what a save takes.
  SaveSituation situation();
  void add_to(RankNotice& notice);
  // The newest step of which there is a checkpoint, or one under way; -1: not known.
  std::int64_t saved_step() const { return saved_step_; }
  void set_saved_step(std::int64_t step) { saved_step_ = step; }

  // For a restart within the process: how far the checkpoint and the copy under way are on this rank, for comparison
  // with others; and what goes on where all are as far, the rest being given up. Collective.
  std::int64_t save_key() const { return saver_.progress_key(); }
  std::int64_t copy_key() const;
  Status settle(bool save_goes_on, bool copy_goes_on);

 private:
  Status note_whole(const SavedCheckpoint& saved);
  void report_read_back(const ReadBack& read);
  void note_written(std::int64_t bytes);

  LoopContext& context_;
  TrainedState& state_;
  CheckpointSaver saver_;
  CheckpointReadBack read_back_;
  std::int64_t saved_step_ = -1;
  double waited_s_ = 0;  // before the checkpoint under way could begin, for the one before
  double save_s_ = 0;    // what the last one took
};

}  // namespace longhaul
