// A training in phases: each with its own length, data mix, sequence length and learning rate (a warm-up, a long stable
// phase, a decay on better data; short sequences first, long ones at the end). Phases are data, one after the other;
// planned once, they say for every step what it trains on.
//
//   [stage.pretrain.phase.main]
//   tokens = 10_000_000_000
//   sequence_length = 4096
//   lr = 3e-4
//   blend = ["web", "code"]
//   blend_weights = [0.8, 0.2]
#pragma once

#include <string>
#include <vector>

#include "contracts/schema/field_table.h"
#include "contracts/settings/training/batch_rampup.h"

namespace longhaul {

// What the user writes. 0 or empty: as in the phase before, for the first phase as the stage's own keys say.
struct TrainingPhase {
  std::string name;
  std::int64_t steps = 0;  // exactly one of steps and tokens
  std::int64_t tokens = 0;
  std::int64_t sequence_length = 0;
  double lr = 0;                      // at the end of the phase
  std::string lr_shape = "constant";  // how it gets there from the phase before; constant: at once
  std::vector<std::string> blend;     // names of the stage's inputs
  std::vector<double> blend_weights;  // one each; empty: by their sizes
};
const FieldTable<TrainingPhase>& training_phase_fields();

// A phase with every value filled in, and where it lies.
struct PlannedPhase {
  std::string name;
  std::int64_t first_step = 1, last_step = 0;  // inclusive; steps count from 1
  std::int64_t first_sample = 0;               // of the global order of samples
  std::int64_t sequence_length = 0;
  double lr_begin = 0, lr_end = 0;  // before its first step, and at its last
  std::string lr_shape;
  std::vector<std::string> blend;
  std::vector<double> blend_weights;  // sum 1; empty: by their sizes

  std::int64_t steps() const { return last_step - first_step + 1; }
};

// What phases take where they say nothing, and what they are held to.
struct PhaseDefaults {
  std::int64_t sequence_length = 0;
  std::int64_t max_position_embeddings = 0;  // the model's; 0: not known yet
  double lr = 0;
  std::int64_t global_batch_size = 0;
  BatchRampup rampup;                 // checked already
  std::vector<std::string> inputs;    // that there are
  std::vector<std::string> blend;     // read by a phase that names none, if none did before; empty: all of them
  std::vector<double> blend_weights;  // one each; empty: by their sizes
};

struct PhasePlan {
  std::vector<PlannedPhase> phases;  // never empty
  std::int64_t steps = 0;
  std::int64_t samples = 0;  // sequences
  std::int64_t tokens = 0;

  // step in [1, steps].
  const PlannedPhase& at(std::int64_t step) const;
};

// A phase given in tokens has the fewest whole steps that train that many. Errors name the phase and the key.
Result<PhasePlan> plan_phases(const std::vector<TrainingPhase>& phases, const PhaseDefaults& defaults);

}  // namespace longhaul
