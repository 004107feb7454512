// Room engine/align/critic
// Learning from rewards with a model beside that says what is to be expected (ppo): rewards of tokens, advantages, the
// critic's loss. token_reward.h, generalized_advantage.h and value_loss.h are the formulas with their sources, in the
// order in which they are used; value_objective.h is the last of them as an objective.
// It knows no models and no answers in text: engine/tasks/rollouts makes both.
//
// How much better each token of an answer is than the critic expected: Schulman et al. 2015, "High-Dimensional
// Continuous Control Using Generalized Advantage Estimation", equations 11 and 16. With r the rewards and V the values
// of an answer's tokens, V before a token being what is expected of it and all later ones, and 0 behind the last:
//   delta_t = r_t + gamma V_{t+1} - V_t        A_t = delta_t + gamma lambda A_{t+1}        return_t = A_t + V_t
#pragma once

#include <span>
#include <vector>

namespace longhaul {

struct TokenAdvantages {
  std::vector<double> advantages, returns;
};
// `rewards` and `values`: one of each token.
TokenAdvantages generalized_advantages(double gamma, double lambda, std::span<const double> rewards,
                                       std::span<const double> values);

}  // namespace longhaul
