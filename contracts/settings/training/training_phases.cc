#include "contracts/settings/training/training_phases.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "base/text/text.h"
#include "contracts/settings/training/training.h"

namespace longhaul {
namespace {

Error refuse(const TrainingPhase& phase, const std::string& what, std::string hint = {}) {
  return make_error(ErrorCode::invalid_input, format("phase.{}: {}", phase.name, what), std::move(hint));
}

Status plan_length(const TrainingPhase& phase, const PhaseDefaults& defaults, const PhasePlan& before,
                   PlannedPhase& planned) {
  if ((phase.steps > 0) == (phase.tokens > 0))
    return refuse(phase, format("steps = {} and tokens = {}", phase.steps, phase.tokens),
                  "give exactly one of them: how long the phase lasts");
  std::int64_t steps = phase.steps;
  if (phase.tokens > 0) {
    const std::int64_t wanted = (phase.tokens + planned.sequence_length - 1) / planned.sequence_length;
    steps = steps_of_samples(defaults.rampup, defaults.global_batch_size, before.samples + wanted) - before.steps;
  }
  planned.first_step = before.steps + 1;
  planned.last_step = before.steps + steps;
  planned.first_sample = before.samples;
  return {};
}

std::vector<double> shares_of(std::vector<double> weights) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (double& weight : weights) weight /= sum;
  return weights;
}

Status plan_blend(const TrainingPhase& phase, const PhaseDefaults& defaults, const PlannedPhase* before,
                  PlannedPhase& planned) {
  if (phase.blend.empty()) {
    if (!phase.blend_weights.empty())
      return refuse(phase, "blend_weights without blend", "blend names what they weigh");
    planned.blend = before ? before->blend : defaults.blend.empty() ? defaults.inputs : defaults.blend;
    planned.blend_weights = before ? before->blend_weights : shares_of(defaults.blend_weights);
    return {};
  }
  for (const std::string& name : phase.blend)
    if (std::find(defaults.inputs.begin(), defaults.inputs.end(), name) == defaults.inputs.end())
      return refuse(phase, format("blend names \"{}\", which is no input", name),
                    "the inputs are: " + join(defaults.inputs, ", "));
  if (const Status fits = check_blend(phase.blend, phase.blend_weights); !fits.ok())
    return refuse(phase, fits.error().what, fits.error().hint);
  planned.blend = phase.blend;
  planned.blend_weights = shares_of(phase.blend_weights);
  return {};
}

}  // namespace

const FieldTable<TrainingPhase>& training_phase_fields() {
  using P = TrainingPhase;
  static const auto table =
      FieldTable<P>()
          .field("steps", &P::steps,
                 {.unit = "steps", .help = "length of the phase; or give tokens", .min = 0, .max = 1e12})
          .field(
              "tokens", &P::tokens,
              {.unit = "tokens", .help = "length of the phase, in whole steps; or give steps", .min = 0, .max = 1e18})
          .field("sequence_length", &P::sequence_length,
                 {.unit = "tokens", .help = "length of one sequence; 0 as before", .min = 0, .max = 1e8})
          .field("lr", &P::lr, {.help = "learning rate at the end of the phase; 0 as before", .min = 0})
          .field("lr_shape", &P::lr_shape,
                 {.help = "the way to lr from the phase before; constant is there at once",
                  .choices = {"constant", "linear", "cosine", "one_minus_sqrt", "exponential"}})
          .field("blend", &P::blend, {.help = "inputs that are read; empty as before"})
          .field("blend_weights", &P::blend_weights,
                 {.help = "share of each in the samples; empty is by their sizes", .min = 0});
  return table;
}

const PlannedPhase& PhasePlan::at(std::int64_t step) const {
  LH_ASSERT(step >= 1 && step <= steps, format("step {} of {}", step, steps));
  return *std::find_if(phases.begin(), phases.end(), [&](const PlannedPhase& one) { return step <= one.last_step; });
}

Result<PhasePlan> plan_phases(const std::vector<TrainingPhase>& phases, const PhaseDefaults& defaults) {
  if (phases.empty()) return make_error(ErrorCode::invalid_input, "a training without phases");
  PhasePlan plan;
  std::set<std::string> names;
  for (const TrainingPhase& phase : phases) {
    if (!names.insert(phase.name).second) return refuse(phase, "there are two of that name");
    const PlannedPhase* before = plan.phases.empty() ? nullptr : &plan.phases.back();
    PlannedPhase planned;
    planned.name = phase.name;
    planned.sequence_length = phase.sequence_length > 0 ? phase.sequence_length
                              : before                  ? before->sequence_length
                                                        : defaults.sequence_length;
    if (planned.sequence_length < 8)
      return refuse(phase, format("sequence_length = {} is less than 8", planned.sequence_length));
    if (const std::int64_t most = defaults.max_position_embeddings; most > 0 && planned.sequence_length > most)
      return refuse(phase, format("sequence_length = {} is longer than the model's max_position_embeddings = {}",
                                  planned.sequence_length, most));
    planned.lr_begin = before ? before->lr_end : 0;
    planned.lr_end = phase.lr > 0 ? phase.lr : before ? before->lr_end : defaults.lr;
    planned.lr_shape = phase.lr_shape;
    LH_CHECK(plan_blend(phase, defaults, before, planned));
    LH_CHECK(plan_length(phase, defaults, plan, planned));
    plan.steps = planned.last_step;
    plan.samples = samples_of_steps(defaults.rampup, defaults.global_batch_size, plan.steps);
    plan.tokens += (plan.samples - planned.first_sample) * planned.sequence_length;
    plan.phases.push_back(std::move(planned));
  }
  return plan;
}

}  // namespace longhaul
