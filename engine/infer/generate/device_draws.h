// Tokens that a model on a device draws there: of a step of many answers (text_model.h) those that end with a draw, and
// the pieces of prompts beside them. Of answers with penalties it knows what the device has counted.
#pragma once

#include <vector>

#include "engine/infer/generate/text_model.h"
#include "engine/model/inference/inference_model.h"

namespace longhaul {

class DeviceDraws {
 public:
  // Borrows all three; `caches`: one for each slot. For draws with penalties the model keeps as many rows
  // (InferenceModel::keep_seen).
  DeviceDraws(const ComputeContext& context, InferenceModel& model, std::vector<KvCache>& caches)
      : context_(context), model_(model), caches_(caches), seen_until_(caches.size(), -1) {}

  // The slot's next answer is another one.
  void reset(int slot) { seen_until_[static_cast<std::size_t>(slot)] = -1; }
  // Steps that draw, and those that want no logits; others are left alone. Fills their places of `drawn`, and what
  // their draws name (TokenDraw). Answers that go on are a pass of their own, which is replayed, each of their tokens a
  // row of it; pieces of prompts are another.
  Status draw(std::span<const TextStep> steps, std::vector<std::int32_t>& drawn);

 private:
  // A row of a pass: which step it is of, and which of the tokens that are drawn there.
  struct Row {
    std::size_t step = 0, token = 0;
    SequenceStep part;
  };
  Status pass(std::span<const TextStep> steps, const std::vector<Row>& rows, std::vector<std::int32_t>& drawn);
  SampleRow row_of(const TextStep& step, std::size_t token);

  const ComputeContext& context_;
  InferenceModel& model_;
  std::vector<KvCache>& caches_;
  // By slot: the position up to which the device has counted what was seen; -1: its row is not that answer's.
  std::vector<std::int64_t> seen_until_;
};

}  // namespace longhaul
