// The loss of a pair of answers as a function of a reward model's numbers for them, c of the chosen and r of the
// rejected one: Bradley and Terry 1952, as Ouyang et al. 2022 (equation 1) train reward models, with the margin m of
// Touvron et al. 2023 (Llama 2, equation 2)
//   loss = -log sigmoid(c - r - m) + w (c + r)^2
// w is center_weight, as center_rewards_coefficient of TRL's RewardTrainer: pairs say nothing of the sum, which it
// keeps around 0 (Eisenstein et al. 2023, "Helping or Herding?").
#pragma once

namespace longhaul {

struct PairScoreLoss {
  double loss = 0;
  double d_chosen = 0, d_rejected = 0;  // dloss / dc, dloss / dr
};
PairScoreLoss bradley_terry_loss(double chosen, double rejected, double margin, double center_weight);

}  // namespace longhaul
