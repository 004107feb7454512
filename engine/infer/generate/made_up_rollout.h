// Whole rollouts of small models of random weights, drawn and compared with a reference as a stage does it
// (rollout_model.h), for measurements of a processor: caches are made, used and gone again, and every answer is as long
// as it may be.
#pragma once

#include <memory>
#include <vector>

#include "base/system/clock.h"
#include "contracts/plan/processor_speed.h"
#include "engine/infer/generate/answer_batch.h"
#include "engine/infer/generate/rollout_model.h"
#include "engine/model/store/parameter_store.h"

namespace longhaul {

class MadeUpRollout {
 public:
  // Of these sizes, whose times are not looked at. The context is a processor's, and borrowed.
  static Result<std::unique_ptr<MadeUpRollout>> create(const ComputeContext& context, const TimedRollout& sizes,
                                                       DType dtype);
  // Seconds by the clock: to draw all answers, without taking over the weights; and to compare them with the reference.
  Result<double> draw(const Clock& clock);
  Result<double> compare(const Clock& clock);

 private:
  MadeUpRollout(const ComputeContext& context, const TimedRollout& sizes, const ModelShape& shape, DType dtype);
  Result<InferenceWeights> weights() const;

  const ComputeContext& context_;
  const TimedRollout sizes_;
  const DType dtype_;
  ParameterStore store_;
  const Tokenizer no_words_;                      // texts of tokens that nobody reads
  std::vector<std::vector<std::int32_t>> texts_;  // prompts with an answer each, those of a group behind each other
  RolloutModel model_;
  std::unique_ptr<InferenceModel> reference_;
};

}  // namespace longhaul
