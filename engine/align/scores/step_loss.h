// The loss of one step of an answer, as a function of a reward model's number s for it: the cross-entropy of a label y,
// 1 where the step is right and 0 where it is wrong, or how often answers that go on from it were right: Lightman et
// al. 2023, "Let's Verify Step by Step", section 2.6; Wang et al. 2024, "Math-Shepherd", equation 2.
//   loss = -y log sigmoid(s) - (1 - y) log sigmoid(-s)
// A classifier with two labels (TRL's PRMTrainer) has the same loss, s being the difference of its two numbers.
#pragma once

namespace longhaul {

struct StepLoss {
  double loss = 0;
  double slope = 0;  // dloss / ds
};
StepLoss step_loss(double number, double label);

}  // namespace longhaul
