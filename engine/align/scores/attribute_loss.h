// The loss of an answer with values of attributes (helpfulness, say), as a function of a reward model's number for
// each: Dong et al. 2023, "SteerLM", section 3.1; Wang et al. 2023, "HelpSteer", section 4 (NeMo-Aligner's regression
// reward models). With p the numbers and y the values
//   loss = sum over the attributes that have a value of (p - y)^2
// which is divided by how many values there are in the whole batch, not in each answer.
#pragma once

#include <span>
#include <vector>

namespace longhaul {

struct AttributeLoss {
  double loss = 0;
  double values = 0;           // that there are
  double absolute = 0;         // sum of |p - y|
  std::vector<double> slopes;  // dloss / dp of each attribute; 0 where there is no value
};
// `values`: NaN where there is none.
AttributeLoss attribute_loss(std::span<const double> numbers, std::span<const double> values);

}  // namespace longhaul
