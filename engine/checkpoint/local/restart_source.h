// Room engine/checkpoint/local
// Copies of a training's state on the nodes themselves, taken more often than checkpoints.
// restart_source.h chooses the newest complete state of both kinds; local_copies.h writes, local_set.h collects.
// local_plan.h plans who sends what to whom; time_line.h marks states that a roll-back has abandoned.
// It does not know the training loop, which only asks it for a state.
//
// What a training goes on from: of the copies on the nodes (local_copies.h) and the checkpoints (checkpoint_store.h)
// the newest that is complete and verified across all ranks. For one step the ranks' own copies come first, then those
// of their partners, then the checkpoint: from the nearest to the farthest. All ranks take the same source.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/checkpoint/global/checkpoint_store.h"
#include "engine/checkpoint/local/local_copies.h"
#include "engine/checkpoint/local/local_set.h"
#include "engine/checkpoint/local/time_line.h"

namespace longhaul {

struct RestartSource {
  std::int64_t step = 0;
  std::optional<LocalStep> copies;  // on the nodes; nullopt: a checkpoint
  std::string checkpoint;           // its folder's name
};
// Both lists by step, newest first, copies before the checkpoint of the same step. Pure. `checkpoints`: folder names.
std::vector<RestartSource> restart_order(std::span<const LocalStep> copies, std::span<const std::string> checkpoints);

struct LoadedState {
  std::string from;  // "copies" | "checkpoint"; "": there is nothing to go on from, the state is as it was
  std::string path;
  int own_copies = 0, partner_copies = 0;  // shares that came from the owner's own copy, and from its partner's
  std::vector<std::string> passed_over;    // newer, nearer or unreadable: what is wrong with each
  std::int64_t judged_step = -1;           // the newest that was loaded, or read and found to be no good
};
// Collective; the same source on every rank. `copies` null: there are none. Whatever is wrong with a source, the next
// one is tried. An error where checkpoints are damaged and nothing good is left (it names them all), where the newest
// readable source is of another model, and where ranks do not answer. Copies that were refused, without any checkpoint,
// begin the training anew: they are listed in `passed_over`. What does not belong to `line` is refused.
Result<LoadedState> load_newest_state(CollectiveGroup& group, const CheckpointStore& checkpoints,
                                      const LocalCopies* copies, TrainingState& state, int threads = 1,
                                      const TimeLine& line = {});

// A training that is known to have saved `at_least_step` (launch.toml) does not begin below it because a file system
// does not show it: ErrorCode::unavailable, which names both steps. `step`: of what was loaded, 0 for nothing. What was
// read and found to be damaged, or was abandoned by a roll-back, is no reason to refuse. Pure.
Status may_begin_at(std::int64_t step, std::int64_t at_least_step, const LoadedState& loaded, const TimeLine& line);

}  // namespace longhaul
