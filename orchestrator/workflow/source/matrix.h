// matrix = { lr = [1e-5, 2e-5], seed = [1, 2] }: one job per combination, the last key varying fastest.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/error/diagnostics.h"
#include "base/value/value.h"
#include "contracts/tasks/stage_kinds.h"

namespace longhaul {

inline constexpr std::size_t variants_max = 10000;  // of one stage

struct MatrixVariant {
  std::string name;  // "lr=1e-05,seed=1", safe as a folder's name; "" without a matrix
  Value table;       // the stage's table with this combination's values in place
};

struct BestRule {
  std::string metric;        // name of a figure
  std::string mode = "min";  // min | max
};
const FieldTable<BestRule>& best_rule_fields();
// `best` of a stage of this kind; without a matrix there is nothing to choose from.
BestRule read_best_rule(const Value& written, bool is_matrix, const std::string& kind, const std::string& where,
                        Diagnostics& diagnostics);

// A matrix key is a key of the stage, a path into a group ("optimizer.lr"), or the bare name of a group's member where
// only one group has it ("lr"). Always returns at least one variant, so that its settings are checked too.
std::vector<MatrixVariant> expand_matrix(const std::string& stage, const StageKind& kind, const Value& table,
                                         Diagnostics& diagnostics);

}  // namespace longhaul
