// The loss of an answer that is good (desirable) or bad by itself, as a function of its log-ratio to the reference:
// Ethayarajh et al. 2024, "KTO: Model Alignment as Prospect Theoretic Optimization", equations 7 and 8. With
// r = log(policy / reference) of the answer, summed over its tokens, and z the divergence of the two models
//   good   desirable_weight (1 - sigmoid(beta (r - z)))
//   bad    undesirable_weight (1 - sigmoid(beta (z - r)))
// z is an estimate from answers that belong to other prompts, max(0, mean of their log-ratios), and is held constant.
#pragma once

#include <span>

#include "contracts/settings/training/training.h"

namespace longhaul {

struct LabelLoss {
  double loss = 0;
  double slope = 0;  // dloss / dr
};
LabelLoss kto_loss(const AlignSettings& settings, double log_ratio, double divergence, bool desirable);
// Of log-ratios of mismatched answers; 0 of none.
double divergence_estimate(std::span<const double> log_ratios);

}  // namespace longhaul
