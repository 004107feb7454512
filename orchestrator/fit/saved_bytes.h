// What a training saves: how much of it lies on the disk, and how long that takes. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "orchestrator/fit/fit_case.h"

namespace longhaul {

struct SavedBytes {
  double checkpoint = 0;                  // bytes of one: f32 weights and both moments
  double model_low = 0, model = 0;        // of a milestone, and of the artifact: in bf16, in f32
  std::int64_t files_low = 0, files = 0;  // of a checkpoint

  // Of one checkpoint at the best, by the site's storage and network cards; 0: it says neither.
  double write_s = 0, read_s = 0;
  std::string write_from;  // "the site's storage, 1980 GB/s"
  bool beside = true;      // the training goes on meanwhile (checkpoint.asynchronous)

  // While it trains: saves before its last step; 0 where nobody knows how many steps there are.
  std::int64_t made = 0;
  std::string interval;  // what says how often, where no key does: "every 41 min, as it is expected to be chosen"

  // Checkpoints that are there at the same time at the most: at least so many, and no more than that. One more than the
  // rules keep while the next is written.
  std::int64_t kept_low = 0, kept = 0;
  std::int64_t kept_for_good = 0;  // of kept_low: by checkpoint.keep_every
  std::int64_t milestones = 0;

  double low() const {
    return static_cast<double>(kept_low) * checkpoint + static_cast<double>(milestones + 1) * model_low;
  }
  double high() const { return static_cast<double>(kept) * checkpoint + static_cast<double>(milestones + 1) * model; }

  // Seconds of a training whose steps take `steps_s`, with its saves. Where it waits for them they come on top; where
  // it goes on, a save that is due before the last one is done waits for that. The last one of all is written in the
  // time that a job keeps for its end.
  double with_saves(double steps_s) const;
};

// nullopt: it does not train, or the model's shape is not known before it runs. A vocabulary that is the tokenizer's
// counts nothing. How often a training saves that chooses it itself is what its forecast makes of the interval that is
// expected (resiliency/checkpoint_interval.h).
std::optional<SavedBytes> saved_bytes(const FitCase& fit, const PlannedStage& stage);

}  // namespace longhaul
