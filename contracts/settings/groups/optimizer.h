// Room contracts/settings/groups
// Groups of settings that all trainings share: optimizer, checkpoint, on_spike, corruption, overlap, trace.
// One pair of files a group: its struct, its table of fields, and what the fields' own bounds cannot say.
// Start with optimizer.h. It knows no stage kind, no model and no layout: contracts/settings/training puts them
// together.
//
#pragma once

#include "contracts/schema/field_table.h"

namespace longhaul {

// Optimizer and schedule. AdamW: Loshchilov & Hutter 2019, decoupled decay.
// What the schedules are: engine/train/optimizer/lr_schedule.h.
struct OptimizerSettings {
  double lr = 1e-3;
  double lr_min_ratio = 0.1;  // no decay goes below lr * ratio
  std::int64_t warmup_steps = 20;
  double lr_start_ratio = 0;                      // the warm-up begins at lr * ratio
  std::string lr_schedule = "cosine";             // cosine | linear | inverse_sqrt | wsd | constant
  std::int64_t lr_decay_steps = 0;                // wsd; 0: a tenth of the steps
  std::string lr_decay_shape = "one_minus_sqrt";  // wsd: linear | cosine | one_minus_sqrt | exponential
  std::int64_t rewarm_after = 0;                  // step after which the schedule begins again; 0: never
  std::int64_t rewarm_steps = 0;                  // its warm-up
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;
  std::vector<std::string> no_decay = {"norms", "biases"};  // kinds, or names with * (contracts/model/weight_decay.h)
  double clip_grad = 1.0;                                   // 0: no clipping
  std::string moments = "f32";                              // f32 | bf16 | mixed (first in bf16, second in f32)
  std::string rounding = "nearest";                         // of bf16 moments: nearest | stochastic
  std::string offload = "none";  // where moments lie between two updates: none | host | node_local
  std::string offload_dir;       // of node_local
};
const FieldTable<OptimizerSettings>& optimizer_fields();
// What the fields' own bounds cannot say of the schedule: keys that do not go together, or with the number of steps (0:
// not known yet). The error names them.
Status check_lr_schedule(const OptimizerSettings& settings, std::int64_t steps);
// The same of what the moments are kept in.
Status check_moments(const OptimizerSettings& settings);

}  // namespace longhaul
