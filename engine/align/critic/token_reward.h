// Rewards of an answer's tokens: each pays for its divergence from the reference, and the last has what the answer is
// worth: Ouyang et al. 2022, "Training language models to follow instructions with human feedback", equation 2;
// Stiennon et al. 2020, "Learning to summarize from human feedback", section 3.4.
//   r_t = -beta KL_t, and the reward at the last
// KL_t is an estimate from the one token that was drawn (Schulman 2020, "Approximating KL Divergence"), with x the
// difference of its log-probabilities under the model that drew it and under the reference:
//   k1   x          k2   x^2 / 2          k3   exp(-x) + x - 1, x within +-20 and the estimate up to 10, as verl's
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "contracts/settings/training/training.h"

namespace longhaul {

double divergence_estimate(std::string_view kind, double log_ratio);

// Natural logarithms, one of each token; `reference` empty: there is no divergence. `divergence`, where it is given,
// grows by the sum of the estimates.
std::vector<double> token_rewards(const PpoSettings& settings, double beta, std::span<const double> drawn,
                                  std::span<const double> reference, double reward, double* divergence = nullptr);

// The next beta, after `answers` answers whose divergence a token was `divergence`: Ziegler et al. 2019, "Fine-Tuning
// Language Models from Human Preferences", section 2.2, with the horizon as verl counts it,
//   beta (1 + e answers / kl_horizon),   e = divergence / kl_target - 1 within +-0.2
// As it was where kl_target is 0. Never below 0.
double adapted_beta(const PpoSettings& settings, double beta, double divergence, double answers);

}  // namespace longhaul
