// What the ranks of a training are asked for from outside, or know by themselves, between two steps. Each brings its
// notice; from those of all ranks, in order, follows what all of them do. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/train/loop/stop_cause.h"

namespace longhaul {

// A save may take that much longer than the last, and a training stops so long before it must.
inline constexpr double save_margin = 1.5, end_margin_s = 2;

// Where a training stands between two steps. `together`: so many steps belong together, and nothing ends or is saved
// but at the last of them.
struct StepPlace {
  std::int64_t step = 0, last = 0;  // done; of the training
  std::int64_t together = 1;
  bool may_end() const { return step % together == 0 || step >= last; }
  // What is done every so many steps (0: never) is done at the first step that may be the last of those here, from the
  // one on that it was due at.
  bool is_due(std::int64_t every) const {
    const std::int64_t before = (step - 1) / together * together;
    return every > 0 && may_end() && step / every > before / every;
  }
};

// Of one rank.
struct RankNotice {
  bool stop = false;                                       // at once, to go on later
  int signal = 0;                                          // by which; 0: not known
  bool shorten = false;                                    // the ordered last step is done
  bool save = false;                                       // a checkpoint is ordered
  bool writing = false, copying = false, reading = false;  // its part of a save, a copy, a read-back is not done yet
  std::int64_t interval = 0;                               // ordered steps between checkpoints; 0: none ordered
  double learning_rate = 0;                                // ordered peak; 0: none
  std::int64_t copy_every = 0;  // steps between copies in memory that it can bear; 0: it keeps none
  double left_s = 0;            // until the ranks are ended by force; 0: not known
  double save_s = 0;            // what a save takes; 0: there was none yet
  double step_s = 0;            // what the last step took

  static constexpr std::size_t fields = 13;
  std::array<double, fields> packed() const;
  static RankNotice from_packed(std::span<const double> packed);
};

// What is under way on all ranks, and the rules for saves.
struct SaveSituation {
  StepPlace place;
  std::int64_t checkpoint_every_steps = 0;                // as configured; 0: none
  bool saving = false, copying = false, reading = false;  // under way
};

// What all ranks do after this step.
struct StepRequests {
  bool stop = false;  // at once, to go on later (SIGTERM on any rank, or the time is nearly over)
  StopCause cause;
  bool shorten = false;
  bool save = false;                                                      // due, or ordered
  bool ordered = false;                                                   // somebody waits for it
  bool advance_save = false, advance_copy = false, advance_read = false;  // every rank has done its part of it
  bool time_is_known = false;
  double left_s = 0;            // of the rank with least
  double save_s = 0;            // of the rank with most
  std::int64_t copy_every = 0;  // of the rank that can bear fewest copies
  double learning_rate = 0;     // ordered; 0: none
  bool fits() const { return !time_is_known || save_s * save_margin < left_s; }  // one more save
};
// Values are one order for the whole launch: the first rank's count.
StepRequests requests_of(std::span<const RankNotice> ranks, const SaveSituation& now);

}  // namespace longhaul
