// Losses of preferences as functions of the log-probabilities of two answers, with their derivatives. Each is a row of
// one registry and a file of its own beside this one, which has the formula and its source. What users may ask of each
// is in contracts/settings/stages/alignment.h.
//
// Throughout: c and r are the log-probabilities of the chosen and the rejected answer under the policy, summed over the
// answer's tokens or divided by their number (length_normalized); c_ref and r_ref the same under the reference. beta,
// and e, the share of pairs taken to be labelled the wrong way round, are settings.
#pragma once

#include <string_view>
#include <vector>

#include "contracts/settings/training/training.h"

namespace longhaul {

// In nats. Without a reference both of its values are 0.
struct PairScores {
  double chosen = 0, rejected = 0;
  double chosen_reference = 0, rejected_reference = 0;
};

struct PairLoss {
  double loss = 0;
  double d_chosen = 0;    // dloss / dchosen
  double d_rejected = 0;  // dloss / drejected
};

struct PairLossMethod {
  const char* name;
  PairLoss (*loss)(const AlignSettings& settings, const PairScores& scores);
};

// One for each method of contracts/settings/stages/alignment.h.
const std::vector<PairLossMethod>& pair_loss_methods();
// The end of the program if there is none of that name: settings are held to the names.
const PairLossMethod& pair_loss_method(std::string_view name);

PairLoss dpo_loss(const AlignSettings& settings, const PairScores& scores);
PairLoss robust_dpo_loss(const AlignSettings& settings, const PairScores& scores);
PairLoss ipo_loss(const AlignSettings& settings, const PairScores& scores);
PairLoss hinge_loss(const AlignSettings& settings, const PairScores& scores);
PairLoss simpo_loss(const AlignSettings& settings, const PairScores& scores);
PairLoss orpo_loss(const AlignSettings& settings, const PairScores& scores);

}  // namespace longhaul
