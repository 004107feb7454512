// What a rank holds to draw answers (engine/tasks/rollouts): beside what it trains, or, of a rank that only draws
// (rollout.ranks), all that it holds. While answers are drawn; between rollouts there are only the reference, and on
// ranks that train nothing else.
#pragma once

#include <cstdint>

#include "contracts/layout/parallel_dims.h"
#include "contracts/model/model_shape.h"
#include "contracts/settings/training/training.h"

namespace longhaul {

// Bytes.
struct RolloutMemory {
  std::int64_t weights = 0;    // that answers are drawn with, in the stage's precision
  std::int64_t arriving = 0;   // the same in f32, where a rank gets them whole from others: beside `weights`
  std::int64_t reference = 0;  // another model, whole
  std::int64_t caches = 0;     // keys and values: a cache in each slot, and one of the reference
  std::int64_t logits = 0;     // f32: of a token of every slot, or of all that an answer has for the reference
  std::int64_t total() const { return weights + arriving + reference + caches + logits; }
};

// Tokens of all of an answer's turns at most, and of what stands before them.
struct AnswerLengths {
  std::int64_t answer = 0, prompt = 0;
};
AnswerLengths longest_answers(const AlignSettings& settings);

// What of it settings alone do not say.
struct DrawnByRank {
  std::int64_t answers = 0;      // at most, in one go
  bool compares = false;         // with a reference, or a teacher, which is taken for a model of the same shape
  bool whole_elsewhere = false;  // it has not what it draws with until others send it
  ParallelDims drawing = {};     // with whose tp and pp it has a part of the models (drawing_layout.h)
};

// Of ranks that have parts the one with most. `shape`: of the model, its vocabulary known.
RolloutMemory plan_rollout_memory(const AlignSettings& settings, const ModelShape& shape, const DrawnByRank& drawn);

}  // namespace longhaul
