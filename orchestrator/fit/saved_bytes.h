// How much a training leaves on the disk: checkpoints, milestones, the model. Pure.
#pragma once

#include <cstdint>
#include <optional>

#include "orchestrator/workflow/run_plan.h"

namespace longhaul {

struct SavedBytes {
  double checkpoint = 0;                  // bytes of one: f32 weights and both moments
  double model_low = 0, model = 0;        // of a milestone, and of the artifact: in bf16, in f32
  std::int64_t files_low = 0, files = 0;  // of a checkpoint

  // Checkpoints that are there at the same time at the most: at least so many, and no more than that. One more than the
  // rules keep while the next is written.
  std::int64_t kept_low = 0, kept = 0;
  std::int64_t kept_for_good = 0;  // of kept_low: by checkpoint.keep_every
  std::int64_t milestones = 0;

  double low() const {
    return static_cast<double>(kept_low) * checkpoint + static_cast<double>(milestones + 1) * model_low;
  }
  double high() const { return static_cast<double>(kept) * checkpoint + static_cast<double>(milestones + 1) * model; }
};

// nullopt: it does not train, or the model's shape is not known before it runs. A vocabulary that is the tokenizer's
// counts nothing.
std::optional<SavedBytes> saved_bytes(const RunPlan& plan, const PlannedStage& stage);

}  // namespace longhaul
