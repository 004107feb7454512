// Which weights AdamW's decoupled decay leaves alone: rules of `optimizer.no_decay`, the same for every layout because
// they go by a parameter's name and global shape.
//
//   norms       weights (and biases) of norms: one-dimensional
//   biases      names that end in ".bias"
//   embeddings  tables of tokens and positions; a tied output is the same table, an untied one is a matrix like others
//   else        a name in which * stands for anything: "*.q_proj.weight"
//
// Norms and biases are the usual choice (minGPT's, and since then most others'); leaving out embeddings as well is that
// of OLMo 2 (2501.00656).
#pragma once

#include <string>
#include <vector>

#include "contracts/model/parameter_list.h"

namespace longhaul {

// Does `rules` leave the parameter alone?
bool without_decay(const ParameterSpec& parameter, const std::vector<std::string>& rules);

// A rule that is neither a kind nor a name with * or a dot. invalid_input names it.
Status check_no_decay(const std::vector<std::string>& rules);
// A name that means none of the parameters, which is a mistake. invalid_input names it.
Status check_no_decay(const std::vector<std::string>& rules, const std::vector<ParameterSpec>& parameters);

}  // namespace longhaul
