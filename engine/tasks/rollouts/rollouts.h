// Room engine/tasks/rollouts
// Answers of the model in training, judged by a reward: what `align` learns from with grpo, rloo, reinforce++ and ppo;
// or compared with a teacher, which distill learns from.
// rollouts.h generates and judges in one replica; whole_weights.h is what it generates with, and shared_rollouts.h
// hands answers from rank to rank; rollout_source.h makes batches of it, over all ranks; critic.h is the model that ppo
// trains beside. Formulas are in engine/align, generation in engine/infer; it knows no stage.
//
// Answers of the model in training to prompts, with what a reward says of them: generated, judged and compared with the
// reference, by the weights as they stand. The ranks of a replica (tp, pp) each draw whole groups with all weights, and
// then have each other's answers. What other replicas draw is not known here.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "engine/align/reward.h"
#include "engine/data/samples/prompt_rows.h"
#include "engine/infer/generate/answer_batch.h"
#include "engine/infer/generate/rollout_model.h"
#include "engine/tasks/common/task_run.h"
#include "engine/tasks/common/training_stage.h"
#include "engine/tasks/rewards/reward_model.h"
#include "engine/tasks/rollouts/whole_weights.h"

namespace longhaul {

struct Rollout {
  ChatTokens tokens;                                // prompt and answer; the answer is what is learnt
  std::vector<double> drawn, reference;             // of the answer's tokens; reference: empty where there is none
  std::vector<double> values, advantages, returns;  // with a critic; advantages with a teacher, too
  Reward reward;                                    // 0 where nothing judges
  double penalty = 0;                               // of its length (engine/align/overlong.h), where it is learnt from
  bool cut = false;
  std::int64_t drafted = 0, accepted = 0, decode_steps = 0;  // GenerationUsage
  // What is learnt from: the reward less the penalty; nothing where there is none.
  std::optional<double> shaped_reward() const {
    return reward.value ? std::optional(*reward.value - penalty) : std::nullopt;
  }
};

struct RolloutTask {
  std::size_t prompt = 0;  // of the prompts
  SamplingParameters sampling;
};

// Seconds of this rank.
struct RolloutTimes {
  double reshard = 0;  // to have the weights as generation needs them
  double generate = 0, reward = 0, reference = 0;
  double value = 0, critic = 0;  // with a critic: its values of the answers, and its own update
  double fill = 0;               // all that is done for the step's batch, on this rank
  double phases() const { return reshard + generate + reward + reference + value + critic; }
  double other() const { return fill > phases() ? fill - phases() : 0; }
};

class Rollouts {
 public:
  // Borrows the run, the stage and the tokenizer. Loads the reference, or the teacher, from `reference_folder` unless
  // that is "". `judge` says what answers are worth where it is not null, else `reward`, else nobody.
  static Result<std::unique_ptr<Rollouts>> create(TaskRun& run, TrainingStage& stage, const AlignSettings& settings,
                                                  const Tokenizer& tokenizer, const std::string& model_folder,
                                                  const std::string& reference_folder,
                                                  std::optional<RewardFunction> reward,
                                                  std::unique_ptr<RewardModel> judge);
  // In the order of the tasks, on every rank of the replica; `group` tasks that follow each other are drawn by one of
  // them. Collective over the replica, and where the weights have changed since the last call over all ranks.
  Result<std::vector<Rollout>> answer(const TokenizedPrompts& prompts, std::span<const RolloutTask> tasks,
                                      std::size_t group, RolloutTimes& times);
  // Weights that were gathered take no memory until the next answer.
  void release() { weights_.release(); }
  // Of the weights that answer now.
  std::int64_t version() const { return stage_.version(); }

 private:
  Rollouts(TaskRun& run, TrainingStage& stage, const AlignSettings& settings, const Tokenizer& tokenizer,
           TextModelInfo info, std::optional<RewardFunction> reward);
  // By this rank alone.
  Result<std::vector<Rollout>> answer_here(const TokenizedPrompts& prompts, std::span<const RolloutTask> tasks,
                                           RolloutTimes& times);
  Status generate(const TokenizedPrompts& prompts, std::span<const RolloutTask> tasks, InferenceWeights weights,
                  std::vector<Rollout>& rollouts, std::vector<RewardQuestion>& questions);
  Status judge(const std::vector<RewardQuestion>& questions, std::vector<Rollout>& rollouts);
  Status compare(std::vector<Rollout>& rollouts);
  double seconds_of(const std::function<Status()>& phase, Status& done) const;

  TaskRun& run_;
  TrainingStage& stage_;
  AlignSettings settings_;
  std::optional<RewardFunction> reward_;
  ModelShape shape_;
  DType dtype_;
  WholeWeights weights_;
  RolloutModel model_;
  std::unique_ptr<InferenceModel> reference_;
  std::unique_ptr<RewardModel> judge_;
};

}  // namespace longhaul
