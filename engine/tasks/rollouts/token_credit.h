// What each token of answers gets of their rewards, by a critic's values: engine/align/critic.
#pragma once

#include <span>

#include "engine/tasks/rollouts/rollout_figures.h"
#include "engine/tasks/rollouts/rollouts.h"

namespace longhaul {

// Sets advantages and returns of answers whose values are known, and adds them to the figures. Of an answer without a
// reward they are 0 and count nowhere.
void credit_tokens(const PpoSettings& settings, double beta, std::span<Rollout> rollouts, RolloutFigures& figures);

// Whitens the advantages of answers with a reward, by the sums over those of all ranks.
void whiten_advantages(std::span<Rollout> rollouts, const AdvantageSums& sums);

// The share of the returns' variance that the values of the rollout explain: 1 is all, 0 what a constant would.
double explained_variance(const RolloutFigures& figures);

}  // namespace longhaul
