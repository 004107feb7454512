// The critic's loss of one answer, with V its values now, O those when the answer was drawn, R the returns and c the
// bound (0: none):
//   1/2 max((V - R)^2, (O + clip(V - O, -c, c) - R)^2)
// OpenAI's baselines, ppo2; Huang et al. 2022, "The 37 Implementation Details of Proximal Policy Optimization", detail
// 9; as TRL, verl and NeMo-Aligner have it.
#pragma once

#include <span>
#include <vector>

namespace longhaul {

// Sums over the tokens.
struct ValueLoss {
  double loss = 0;
  double clipped = 0;          // tokens whose bound is what counts
  std::vector<double> slopes;  // dloss / dV of each token
};
ValueLoss value_loss(double bound, std::span<const double> values, std::span<const double> drawn_values,
                     std::span<const double> returns);

}  // namespace longhaul
