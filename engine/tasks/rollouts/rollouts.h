// Room engine/tasks/rollouts
// Answers of the model in training, judged by a reward: what `align` learns from with grpo, rloo, reinforce++ and ppo;
// or compared with a teacher, which distill learns from.
// rollouts.h has them drawn in one replica, rollout_worker.h is one rank's part, with whom and by which weights says
// engine/tasks/drawing; shared_rollouts.h hands answers from rank to rank; rollout_source.h makes batches of it, over
// all ranks, and rollouts_ahead.h keeps those of a step to come; critic.h is the model that ppo trains beside. Formulas
// are in engine/align, generation in engine/infer; it knows no stage.
//
// Answers of the model in training to prompts, with what a reward says of them: generated, judged and compared with the
// reference, by the weights as they stand. The ranks of a replica (tp, pp) each draw whole groups with all weights, or
// teams of them (drawing_team.h), and then have each other's answers. What other replicas draw is not known here.
#pragma once

#include <atomic>
#include <future>
#include <memory>
#include <optional>
#include <vector>

#include "engine/tasks/common/task_run.h"
#include "engine/tasks/common/training_stage.h"
#include "engine/tasks/drawing/drawing_weights.h"
#include "engine/tasks/rollouts/rollout_worker.h"

namespace longhaul {

// Ranks that draw what is begun in place of a thread of the ranks that train (engine/tasks/rollout_ranks). One rollout
// is under way at a time. begin() and finish() are collective over all ranks that train.
class OtherRanks {
 public:
  virtual ~OtherRanks() = default;
  // `tasks`: of this replica, as many in each; `weights`: the training's, of which each rank has its part.
  virtual Status begin(const ParameterStore& weights, std::span<const RolloutTask> tasks, std::size_t group) = 0;
  virtual bool has_begun() const = 0;
  // Answers to this replica's tasks, in their order. `times`: of drawing them.
  virtual Result<std::vector<Rollout>> finish(RolloutTimes& times) = 0;
};

class Rollouts {
 public:
  // Borrows the run, the stage, the tokenizer and the encoder. A chat template that has no place for what an
  // environment says is refused (unsupported), where there is one. Loads the reference, or the teacher, from
  // `reference_folder` unless that is "". `judge` says what answers are worth where it is not null, else `reward`, else
  // nobody. `others`: borrowed; null: what is begun is drawn in a thread.
  static Result<std::unique_ptr<Rollouts>> create(TaskRun& run, TrainingStage& stage, const AlignSettings& settings,
                                                  const ConversationTokens& tokens, const std::string& model_folder,
                                                  const std::string& reference_folder,
                                                  std::optional<RewardFunction> reward,
                                                  std::unique_ptr<RewardModel> judge, OtherRanks* others);
  // What a rank draws with, whether it trains or not; the same arguments. `shape`: of the weights that it draws with;
  // what stands before texts by it is counted in settings.sequence_length. `team`: borrowed; the ranks of it each load
  // their part of the reference.
  static Result<std::unique_ptr<RolloutWorker>> make_worker(const TaskRun& run, const AlignSettings& settings,
                                                            const ConversationTokens& tokens, const ModelShape& shape,
                                                            const std::string& model_folder,
                                                            const std::string& reference_folder,
                                                            std::optional<RewardFunction> reward,
                                                            std::unique_ptr<RewardModel> judge, DrawingTeam& team);
  // That generation computes in.
  static DType dtype_of(const AlignSettings& settings) {
    return settings.precision == "bf16" ? DType::bf16 : DType::f32;
  }
  // In the order of the tasks, on every rank of the replica; `group` tasks that follow each other are drawn by one of
  // them. Collective over the replica, and where the weights have changed since the last call over all ranks. On a GPU
  // the weights of the training, or those that were gathered, are borrowed for the call, and caches and scratch memory
  // are gone when it comes back.
  Result<std::vector<Rollout>> answer(const TokenizedPrompts& prompts, std::span<const RolloutTask> tasks,
                                      std::size_t group, RolloutTimes& times);
  // The same, on processors alone, in a thread of its own, or by the ranks that only draw, by a copy of the weights as
  // they stand: finish() has the answers. The prompts live until then. Collective as answer(), which waits for what was
  // begun in a thread; with ranks that only draw over all ranks.
  Status begin(const TokenizedPrompts& prompts, std::vector<RolloutTask> tasks, std::size_t group, RolloutTimes& times);
  bool has_begun() const { return begun_ != nullptr || (others_ && others_->has_begun()); }
  // Of what was begun; `times` gets its phases, and what was waited here. Collective over the replica, or all ranks.
  Result<std::vector<Rollout>> finish(RolloutTimes& times);
  // Waits for what a thread has begun, and forgets it.
  void abandon() { begun_.reset(); }
  // Brings the weights together now: where ranks of other replicas have some of them (ZeRO 3, experts), a replica that
  // is asked for answers more often than others keeps nobody waiting. Collective over all ranks.
  Status gather(RolloutTimes& times);
  // Weights that were gathered take no memory until the next answer.
  void release() { weights_.release(); }
  // Of the weights that answer now.
  std::int64_t version() const { return stage_.version(); }
  // Ids of what stands before every prompt in training, and in the caches by itself; rollouts do not have them.
  std::vector<std::int32_t> before() const { return virtual_token_ids(stage_.weights().shape()); }

 private:
  // What this rank computes: its own, with those of its team.
  struct TasksHere {
    std::vector<RolloutTask> tasks;
    std::vector<int> whose;  // ranks of the replica
  };
  struct Begun {
    TasksHere here;
    std::size_t count = 0, group = 1;
    RolloutTimes times;
    std::atomic<std::int64_t> sections{0};  // that have begun
    // Last: its end is waited for before all else goes.
    std::future<Result<std::vector<Rollout>>> answers;
  };
  Rollouts(TaskRun& run, TrainingStage& stage, const AlignSettings& settings, OtherRanks* others);
  TasksHere tasks_here(std::span<const RolloutTask> tasks, std::size_t group) const;
  Result<InferenceWeights> take_weights(RolloutTimes& times);
  Status begin_on_others(const std::vector<RolloutTask>& tasks, std::size_t group, RolloutTimes& times);
  // What was drawn beside a step took `of`.
  static void add_beside(const RolloutTimes& of, RolloutTimes& times);
  // Until the thread has its answers; its progress is this rank's.
  void wait() const;

  TaskRun& run_;
  TrainingStage& stage_;
  AlignSettings settings_;
  OtherRanks* others_;
  DrawingTeam team_;
  DrawingWeights weights_;
  std::unique_ptr<RolloutWorker> worker_;
  std::unique_ptr<Begun> begun_;
};

}  // namespace longhaul
