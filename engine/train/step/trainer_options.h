// What goes into an optimizer step and what comes out of it: settings, report, and who is called on the way.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/process/fault_point.h"
#include "contracts/settings/training/pipeline.h"
#include "contracts/settings/training/training.h"
#include "engine/model/adapter/adapted_weights.h"
#include "engine/model/llama.h"
#include "engine/parallel/mesh/mesh_traffic.h"
#include "engine/train/optimizer/optimizer.h"
#include "engine/train/step/objective.h"

namespace longhaul {

struct TrainerOptions {
  OptimizerSettings optimizer;
  std::uint64_t seed = 0;              // of stochastic rounding
  AdaptedWeights* adapted = nullptr;   // the models' weights, where an adapter is trained; borrowed; null: they are
  MomentStream* offloaded = nullptr;   // where the optimizer's moments are; borrowed; null: in memory
  std::int64_t steps = 0;              // of the whole run: the schedule's length
  std::int64_t micro_batch_size = 1;   // samples
  std::int64_t global_batch_size = 1;  // samples
  BatchRampup batch_rampup;            // checked
  std::int64_t tokens_max = 0;         // of a micro-batch
  bool deterministic = true;
  bool check_contributions = false;  // to sums over ranks: contribution_guard.h
  std::int64_t replay_every = 0;     // steps between replays, gradient_replay.h; 0: none
  std::vector<PlannedPhase> phases;  // their rates instead of the optimizer's schedule; empty: one, without a name
  SpikeSettings on_spike;
  PipelineSettings pipeline;
  bool overlap_gradients = true;  // sums over ranks start while the backward goes on
  bool overlap_weights = true;    // weights are gathered while others are in use (ZeRO)
  bool overlap_pipeline = true;   // messages between stages travel beside computation
};

// What became of a step: done; or bad (spike_guard.h), its update left out, or to be rolled back from.
enum class StepEnd { done, skipped, roll_back };

struct StepReport {
  std::int64_t step = 0;
  StepEnd end = StepEnd::done;
  std::string problem;   // of a bad step
  double loss = 0;       // mean over the global batch
  double grad_norm = 0;  // before clipping
  double lr = 0;
  double tokens = 0;           // of all ranks' data
  double computed_tokens = 0;  // with padding
  std::int64_t samples = 0;    // of the global batch
  double waited_s = 0;         // by this rank, for others: communication that nothing hid, and those that were late
  CommunicationTable traffic;  // of this rank
  std::array<double, objective_extras> extra{};
  double largest = 0;  // of ObjectiveSums
  // Of a model with experts: the auxiliary losses of all its layers, not part of `loss`, and how evenly the tokens of
  // the global batch were spread (engine/model/experts/moe_state.h).
  double balance_loss = 0, z_loss = 0;
  ExpertLoad load;
  std::vector<LayerVerdict> verdicts;            // of low precision, by layer, in a step that measured it
  bool multiplies_low = false;                   // a device multiplies low precision itself, where sizes allow it
  std::vector<std::string> low_precision_notes;  // new: whether it is computed or emulated, and why; of this rank
};

// Who is called in the course of a step, by the training's thread. Each may be empty but for gradient_flip.
struct TrainerHooks {
  // Before each micro-batch: heartbeat, requests to stop.
  std::function<void(std::int64_t step, int micro_batch)> on_micro_batch;
  // Before weights and moments change: what still copies them must end first.
  std::function<void()> before_change;
  // A bit to change in the first micro-batch's gradient that this rank computes now: the fault point engine_gradient.
  // Where ranks share a process a test may put itself in its place.
  std::function<std::optional<std::uint64_t>()> gradient_flip = [] { return flip_here(FaultPoint::engine_gradient); };
  // May a rank that cannot go on say so at once, because somebody outside makes the others leave? Else it waits until
  // they come to where all learn of it, which those who stand in a collective without it never do. Empty: it may not.
  std::function<bool(const Error&)> fails_alone;
};

}  // namespace longhaul
