// Direct Preference Optimization, Rafailov et al. 2023, equation 7, on log-probabilities alone:
//   margin = (chosen - chosen_reference) - (rejected - rejected_reference)
//   loss   = -(1 - e) log sigmoid(beta margin) - e log sigmoid(-beta margin)
// e is the label smoothing of conservative DPO (Mitchell 2023): the share of pairs taken to be labelled wrongly.
#pragma once

namespace longhaul {

struct DpoSettings {
  double beta = 0.1;
  double label_smoothing = 0;
};

// Log-probabilities of the two answers, summed over their tokens or per token, policy and reference alike.
struct DpoPair {
  double chosen = 0, rejected = 0;
  double chosen_reference = 0, rejected_reference = 0;
};

struct DpoLoss {
  double loss = 0;
  double margin = 0;      // of the log-ratios; beta * margin is the difference of implicit rewards
  double d_chosen = 0;    // dloss / dchosen
  double d_rejected = 0;  // = -d_chosen
};
DpoLoss dpo_loss(const DpoSettings& settings, const DpoPair& pair);

}  // namespace longhaul
