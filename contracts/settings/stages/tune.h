// Settings of a `tune` stage: which layouts of another stage are tried, and how thoroughly. Which stage that is stands
// in the workflow's key `for`; what one trial may ask of the scheduler, in the common keys, as that stage has them.
#pragma once

#include "contracts/schema/field_table.h"

namespace longhaul {

struct TuneSettings {
  std::int64_t steps = 20;        // of one trial, warm-up included
  std::int64_t warmup_steps = 5;  // of those, not measured
  int max_runs = 5;               // trials; 0: arithmetic alone
  int at_once = 2;                // trials of one round
  double confidence = 0.95;
  std::string phase;  // of a training in phases, the one that trials train; "": that with the longest sequences
  // What the search may choose from; empty: anything that divides.
  std::vector<std::int64_t> tp, pp, cp, ep, micro_batch_size;
};
const FieldTable<TuneSettings>& tune_fields();
// What the fields' own bounds cannot say: the key that is wrong, and why.
Status check_tune(const TuneSettings& settings);

inline constexpr const char* tune_kind_name = "tune";
// The key that FieldTable does not know: a list of tables, each what a user would write in the stage, with a `name` if
// he likes. Without it a search finds the candidates.
inline constexpr const char* tune_candidates_key = "candidates";
// Where the planner leaves what the trials are of: the stage, its settings and its resources. Part of the key.
inline constexpr const char* tune_for_key = "for";
inline constexpr const char* tune_target_key = "target";
inline constexpr const char* tune_phase_key = "phase";

}  // namespace longhaul
