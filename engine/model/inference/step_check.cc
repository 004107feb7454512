#include "engine/model/inference/step_check.h"

#include <algorithm>

#include "base/text/text.h"

namespace longhaul {

Status check_steps(const ModelShape& shape, DType dtype, const Device* device, std::span<const SequenceStep> steps,
                   LogitsWanted wanted, std::size_t logits_room) {
  std::size_t rows = wanted == LogitsWanted::last ? steps.size() : 0;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const SequenceStep& step = steps[i];
    const auto count = static_cast<std::int64_t>(step.tokens.size());
    if (!step.cache || step.tokens.empty())
      return make_error(ErrorCode::invalid_input, format("sequence {} brings no token or no cache", i));
    const bool goes_on = i > 0 && steps[i - 1].cache == step.cache && step.cache->pool() != nullptr && count == 1 &&
                         steps[i - 1].tokens.size() == 1;
    for (std::size_t j = 0; j < i; ++j)
      if (steps[j].cache == step.cache && !goes_on)
        return make_error(ErrorCode::invalid_input, format("sequences {} and {} share a cache", j, i));
    const std::int64_t room = std::min(step.cache->length_max(), shape.max_position_embeddings);
    const std::int64_t before =
        (step.cache->length() > 0 ? step.cache->length() : shape.virtual_tokens) + tokens_ahead(steps, i);
    if (before + count > room)
      return make_error(ErrorCode::invalid_input,
                        format("sequence {} would have {} tokens, there is room for {}", i, before + count, room));
    if (step.cache->pool() != steps.front().cache->pool())
      return make_error(ErrorCode::invalid_input, format("sequence {} has a cache of another pool than the first", i));
    if (step.cache->dtype() != dtype || step.cache->device() != device)
      return make_error(ErrorCode::invalid_input, format("sequence {} has a cache of another type or device", i));
    for (const std::int32_t id : step.tokens)
      if (id < 0 || id >= shape.vocab_size)
        return make_error(ErrorCode::invalid_input,
                          format("token {} is outside the model's vocabulary of {}", id, shape.vocab_size));
    if (wanted == LogitsWanted::all) rows += step.tokens.size();
  }
  if (steps.empty()) return make_error(ErrorCode::invalid_input, "no sequences");
  if (logits_room < rows * static_cast<std::size_t>(shape.vocab_size))
    return make_error(ErrorCode::invalid_input,
                      format("room for {} logits, {} rows of {} are wanted", logits_room, rows, shape.vocab_size));
  return {};
}

}  // namespace longhaul
