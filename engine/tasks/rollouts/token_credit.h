// What each token of answers gets: of their rewards, by a critic's values (engine/align/critic), or by a teacher
// (engine/align/teacher_advantage.h).
#pragma once

#include <span>

#include "engine/tasks/rollouts/rollout.h"
#include "engine/tasks/rollouts/rollout_figures.h"

namespace longhaul {

// Sets advantages and returns of answers whose values are known, and adds them to the figures. Of an answer without a
// reward they are 0 and count nowhere.
void credit_tokens(const PpoSettings& settings, double beta, std::span<Rollout> rollouts, RolloutFigures& figures);

// Whitens the advantages of answers with a reward, by the sums over those of all ranks.
void whiten_advantages(std::span<Rollout> rollouts, const AdvantageSums& sums);

// Sets the advantages of answers that a teacher has compared: their `reference` is its. A log-probability that is no
// number is an error (invalid_input).
Status credit_by_teacher(std::span<Rollout> rollouts);

// The share of the returns' variance that the values of the rollout explain: 1 is all, 0 what a constant would.
double explained_variance(const RolloutFigures& figures);

}  // namespace longhaul
