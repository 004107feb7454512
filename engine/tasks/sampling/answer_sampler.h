// Draws answers to prompts on this rank and judges them. What is drawn belongs to (seed, line of the prompt, number of
// the answer), and prompts are answered in blocks that are the same whatever the number of ranks: so are the answers.
// Nothing here speaks to other ranks.
#pragma once

#include <memory>
#include <vector>

#include "engine/data/samples/prompt_rows.h"
#include "engine/infer/generate/text_model.h"
#include "engine/tasks/rewards/pairwise_judge.h"
#include "engine/tasks/rewards/reward_model.h"
#include "engine/tasks/sampling/sample_figures.h"
#include "engine/tasks/sampling/sampled_group.h"

namespace longhaul {

class AnswerSampler {
 public:
  // Loads the model of the input `model`, and what judges. Borrows run and prompts.
  static Result<std::unique_ptr<AnswerSampler>> create(TaskRun& run, const SampleSettings& settings,
                                                       const TokenizedPrompts& prompts, RewardFunction reward);

  std::size_t blocks() const;
  struct Block {
    std::vector<SampledGroup> groups;
    SampleSums judged;  // of the judge alone
  };
  Result<Block> block(std::size_t number);

 private:
  AnswerSampler(TaskRun& run, const SampleSettings& settings, const TokenizedPrompts& prompts, RewardFunction reward)
      : run_(run), settings_(settings), prompts_(prompts), reward_(std::move(reward)) {}
  Result<std::vector<SampledGroup>> draw(std::size_t first, std::size_t end);
  void check(std::vector<SampledGroup>& groups) const;
  Status ask_reward_model(std::vector<SampledGroup>& groups);
  Status ask_judge(Block& block);

  TaskRun& run_;
  SampleSettings settings_;
  const TokenizedPrompts& prompts_;
  RewardFunction reward_;
  std::unique_ptr<TextModel> model_;
  std::unique_ptr<RewardModel> reward_model_;
  std::unique_ptr<PairwiseJudge> judge_;
};

}  // namespace longhaul
