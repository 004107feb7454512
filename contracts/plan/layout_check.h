// Whether a model can be laid out as asked, and whether this version's engine can: checked before anything is submitted
// and again before memory is taken. Names are those of the settings.
#pragma once

#include <string>
#include <vector>

#include "contracts/layout/parallel_dims.h"
#include "contracts/model/model_shape.h"

namespace longhaul {

struct LayoutCheckInput {
  ModelShape shape;  // resolved; vocab_size 0: not known yet
  ParallelDims dims;
  std::int64_t micro_batch_size = 1;  // sequences
  std::int64_t sequence_length = 0;   // tokens
  std::string cp_attention = "ring";
};

struct LayoutProblem {
  std::string what, hint;
};

// Every split of a dim: the number that does not divide, and those that would. The vocabulary need not divide: its last
// shard may be shorter, but not empty.
std::vector<LayoutProblem> layout_problems(const LayoutCheckInput& input);
// All of them as one error (invalid_input).
Status check_layout_of(const LayoutCheckInput& input);

// What the engine of this version runs stages of this kind with; unsupported otherwise.
Status check_layout_available(const std::string& stage_kind, const ParallelDims& dims);

}  // namespace longhaul
