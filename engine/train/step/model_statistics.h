// What the models of a rank's pipeline stages have seen in a step and decide from: loads of experts, magnitudes of low
// precision. After a step they are brought together over the ranks, so that all of them decide alike.
#pragma once

#include <string>
#include <vector>

#include "base/value/value.h"
#include "engine/model/store/parameter_store.h"
#include "engine/parallel/mesh/mesh.h"
#include "engine/train/step/trainer_options.h"

namespace longhaul {

// Counts and losses of the experts over the global batch, of every layer on every rank, into the report; with
// moves_bias the bias of the selection moves with them, in the masters. `count`: what losses are divided by.
// Collective. Without experts nothing.
Status end_step_of_experts(const ComputeContext& context, Mesh& mesh, ParameterStore& store,
                           const std::vector<Llama*>& stages, bool moves_bias, double count, StepReport& report);
// Counts of a step that does not count.
void discard_expert_counts(const std::vector<Llama*>& stages);

void begin_step_of_low_precision(const ComputeContext& context, const std::vector<Llama*>& stages, std::int64_t step);
// What the ranks saw of magnitudes and noise becomes scales and decisions of the steps to come. Collective.
Status end_step_of_low_precision(CollectiveGroup& world, const std::vector<Llama*>& stages, StepReport& report);
// The same on all ranks and in all stages of a rank; null without it.
Value low_precision_state_of(const std::vector<Llama*>& stages);
Status restore_low_precision_of(const std::vector<Llama*>& stages, const Value& state);

// What is seen in an evaluation is no step's.
void set_evaluates(const std::vector<Llama*>& stages, bool evaluates);

}  // namespace longhaul
