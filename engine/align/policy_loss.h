// The loss of one answer under its advantage A, as a function of the log-probabilities of its tokens. With l of the
// model, o those under which the answer was drawn, f those of the reference:
//   ratio    exp(l - o) of each token, or of the whole answer exp(mean of l - o): Zheng et al. 2025, "Group Sequence
//            Policy Optimization", equation 7
//   surrogate  -min(ratio A, clip(ratio, 1 - clip_low, 1 + clip_high) A): Schulman et al. 2017, "Proximal Policy
//            Optimization Algorithms", equation 7; two bounds as in Yu et al. 2025, "DAPO", equation 10
//              with dual_clip c at most c |A| where A < 0: Ye et al. 2020, "Mastering Complex Control in MOBA Games
//              with Deep Reinforcement Learning", equation 2
//   or, with surrogate "cispo", -min(ratio, 1 + clip_high) A l, in which the ratio is held constant: MiniMax 2025,
//              "MiniMax-M1", equation 4, without a lower bound as there
//   or, with importance_cap c, -min(exp(l - o), c) exp(l - p) A, where the first factor is held constant and p is the
//              model before the step's first update. A rollout has one update, so p is l itself, held constant: the
//              value is -min(exp(l - o), c) A, and so is the slope. The first factor corrects for answers that other
//              arithmetic or earlier weights drew than learn from them: Yao et al. 2025, "Your Efficient RL Framework
//              Secretly Brings You Off-Policy RL Training" (truncated importance sampling); Ionides 2008, "Truncated
//              Importance Sampling"
//   divergence  beta (exp(f - l) - (f - l) - 1): Shao et al. 2024, "DeepSeekMath", equation 4 (the estimator k3)
// Differences of log-probabilities end at +-20, as in verl; there the slope is 0.
#pragma once

#include <span>
#include <vector>

#include "contracts/settings/training/training.h"

namespace longhaul {

// Natural logarithms, a value for each token of the answer.
struct AnswerScores {
  std::span<const double> model, drawn, reference;  // reference: empty where beta is 0
  double advantage = 0;                             // of all tokens,
  std::span<const double> advantages = {};          // unless each has its own
};

// Sums over the tokens.
struct PolicyLoss {
  double loss = 0;
  double divergence = 0;       // k3, without beta
  double clipped = 0;          // tokens whose bound is what counts
  double importance = 0;       // exp(l - o); with importance_cap alone
  double importance_max = 0;   // the largest of them, no sum
  std::vector<double> slopes;  // dloss / dmodel of each token
};

PolicyLoss policy_loss(const AlignSettings& settings, const AnswerScores& scores);

}  // namespace longhaul
