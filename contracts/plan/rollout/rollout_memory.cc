#include "contracts/plan/rollout/rollout_memory.h"

#include <algorithm>

#include "contracts/plan/rollout/drawing_layout.h"

namespace longhaul {

AnswerLengths longest_answers(const AlignSettings& settings) {
  const RolloutSettings& rollout = settings.rollout;
  // A conversation ends where sequence_length does; something has been said before its first turn.
  const std::int64_t answer = std::clamp<std::int64_t>(rollout.turns * rollout.max_new_tokens, 1,
                                                       std::max<std::int64_t>(1, settings.sequence_length));
  return {answer, std::max<std::int64_t>(1, settings.sequence_length + 1 - answer)};
}

namespace {

// Of a rank of the first stage, or of the last.
std::int64_t largest_part(const ModelShape& shape, const ParallelDims& drawing) {
  if (drawing.tp * drawing.pp == 1) return shape.parameter_count();
  std::int64_t largest = 0;
  for (const int rank : {0, drawing.world_size() - 1})
    largest =
        std::max(largest, ParameterLayout(frozen_shape(shape), drawing_place(drawing, shape, rank, {})).flat_size());
  return largest;
}

}  // namespace

RolloutMemory plan_rollout_memory(const AlignSettings& settings, const ModelShape& shape, const DrawnByRank& drawn) {
  constexpr std::int64_t f32_bytes = 4;
  const std::int64_t width = settings.precision == "bf16" ? 2 : f32_bytes;
  const std::int64_t parameters = largest_part(shape, drawn.drawing);
  const std::int64_t text = settings.sequence_length + 1 + shape.virtual_tokens;
  const std::int64_t layers = (shape.num_hidden_layers + drawn.drawing.pp - 1) / drawn.drawing.pp;
  const std::int64_t cache = 2 * layers * text * shape.kv_size() / drawn.drawing.tp * width;
  const std::int64_t slots = std::min(settings.rollout.slots, drawn.answers);
  RolloutMemory memory;
  memory.weights = parameters * width;
  if (drawn.whole_elsewhere) memory.arriving = parameters * f32_bytes;
  if (drawn.compares) memory.reference = parameters * width;
  memory.caches = (slots + (drawn.compares ? 1 : 0)) * cache;
  const std::int64_t rows = drawn.compares ? std::max(slots, longest_answers(settings).answer) : slots;
  memory.logits = rows * shape.vocab_size * f32_bytes;
  return memory;
}

}  // namespace longhaul
