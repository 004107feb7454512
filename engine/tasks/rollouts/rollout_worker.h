// One rank's part of a rollout: it generates, judges and compares with the reference. Of the training it needs nothing
// but weights, so that it can work in a thread of its own while the training goes on. One thread at a time.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "engine/infer/generate/rollout_model.h"
#include "engine/tasks/rewards/reward_model.h"
#include "engine/tasks/rollouts/rollout.h"

namespace longhaul {

class RolloutWorker {
 public:
  // What is said of answers: `judge` where it is not null, else `reward`, else nothing; and of their tokens by the
  // reference, or the teacher, where it is not null.
  struct Judges {
    std::optional<RewardFunction> reward;
    std::unique_ptr<RewardModel> judge;
    std::unique_ptr<InferenceModel> reference;
  };
  // Borrows clock and tokenizer. `threads`: that it computes with, at this level.
  RolloutWorker(const Clock& clock, const AlignSettings& settings, const Tokenizer& tokenizer, const ModelShape& shape,
                TextModelInfo info, Judges judges, int threads, CpuLevel level);

  // In the order of the tasks. `says` is called with the name of the section that has begun, again and
  // again while it lasts.
  Result<std::vector<Rollout>> answer(InferenceWeights weights, const TokenizedPrompts& prompts,
                                      std::span<const RolloutTask> tasks, RolloutTimes& times,
                                      const std::function<void(const char*)>& says);

 private:
  using Says = std::function<void(const char*)>;
  Status generate(const TokenizedPrompts& prompts, std::span<const RolloutTask> tasks, InferenceWeights weights,
                  std::vector<Rollout>& rollouts, std::vector<RewardQuestion>& questions, const Says& says);
  Status judge(const std::vector<RewardQuestion>& questions, std::vector<Rollout>& rollouts, const Says& says);
  Status judge_by_model(std::vector<Rollout>& rollouts, const Says& says);
  Status compare(std::vector<Rollout>& rollouts, const Says& says);

  const Clock& clock_;
  AlignSettings settings_;
  ComputeContext compute_;  // of its own: the training's is used meanwhile
  RolloutModel model_;
  Judges judges_;
};

}  // namespace longhaul
