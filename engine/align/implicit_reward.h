// The implicit reward of an answer, over beta: a function of the log-ratio t = log(policy / reference) that follows
// from the divergence which ties the policy to the reference (Wang et al. 2024, "Beyond Reverse KL", table 1 and
// theorem 1: f'(exp t)). Constants cancel in the difference of two answers; they are those of TRL.
//   reverse_kl  t
//   forward_kl  1 - exp(-t)
//   js          log 2 + log sigmoid(t)
//   alpha       (exp((a - 1) t) - 1) / (a - 1), of which a = 1 is reverse_kl
#pragma once

#include "contracts/settings/training/training.h"
#include "engine/align/pair_loss.h"

namespace longhaul {

struct ImplicitReward {
  double value = 0;
  double slope = 0;  // dvalue / dt
};
// Exponents end at 80, above which the slope is 0.
ImplicitReward implicit_reward(const AlignSettings& settings, double log_ratio);

// Chosen minus rejected, and a loss of that difference back to the two answers.
struct RewardDifference {
  ImplicitReward chosen, rejected;
  double value() const { return chosen.value - rejected.value; }
  // slope: dloss / dvalue
  PairLoss loss_of(double loss, double slope) const { return {loss, slope * chosen.slope, -slope * rejected.slope}; }
};
RewardDifference reward_difference(const AlignSettings& settings, const PairScores& scores);

}  // namespace longhaul
