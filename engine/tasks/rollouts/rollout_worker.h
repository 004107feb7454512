// One rank's part of a rollout: it generates, judges and compares with the reference. Of the training it needs nothing
// but weights, so that it can work in a thread of its own while the training goes on. One thread at a time.
//
// The ranks of a team (drawing_team.h) generate and compare the same answers together, each with its part of the
// models. What is asked of others, environments and rewards, is asked by one rank for each answer: it could be answered
// differently the second time.
//
// With rollout.turns above 1 all conversations have their first turn, then the environment answers those that are open,
// then these have their second one, and so on. A conversation is open while the model's turns end by themselves, the
// environment is not done, and sequence_length has room for its reply and one more token. What the model wrote stays as
// the tokens that it drew: only those of the reply are added (ChatEncoder::encode_reply). Each turn has random numbers
// of its own. A turn reads what its conversation got since the last one where a cache holds the rest: rollout.slots
// caches keep their conversations until another one needs them, so all of them where there are as many.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "engine/infer/generate/rollout_model.h"
#include "engine/tasks/drawing/drawing_team.h"
#include "engine/tasks/environment/environment.h"
#include "engine/tasks/rewards/reward_model.h"
#include "engine/tasks/rollouts/rollout.h"

namespace longhaul {

// Borrowed.
struct ConversationTokens {
  const Tokenizer& tokenizer;
  const ChatEncoder& encoder;
};

class RolloutWorker {
 public:
  // What is said of answers: `judge` where it is not null, else `reward`, else nothing; and of their tokens by the
  // reference, or the teacher, where it is not null: in a team this rank's part of it. `part`: its weights, where it
  // borrows them.
  struct Judges {
    std::optional<RewardFunction> reward;
    std::unique_ptr<RewardModel> judge;
    std::unique_ptr<MemoryAccounts> accounts;  // of the part
    std::unique_ptr<ParameterStore> part;
    std::unique_ptr<InferenceModel> reference;
  };
  // `threads`: that it computes with, at this level. `gpu`: where the models compute and the weights lie; null: on the
  // processor. A device is used by one thread at a time: on a GPU it works in the thread that trains, between two
  // steps.
  struct Place {
    int threads = 1;
    CpuLevel level;
    Gpu* gpu = nullptr;
  };
  // Borrows clock, tokenizer, encoder and team. settings.sequence_length: of texts, what stands before them by the
  // shape apart.
  RolloutWorker(const Clock& clock, const AlignSettings& settings, const ConversationTokens& tokens,
                const ModelShape& shape, TextModelInfo info, Judges judges, const Place& place, DrawingTeam& team);

  // Of the tasks those that are this rank's, in their order: all, or in a team, whose ranks are all given the same
  // tasks, those for which `whose` has its rank of the replica. `says` is called with the name of the section that has
  // begun, again and again while it lasts.
  Result<std::vector<Rollout>> answer(InferenceWeights weights, const TokenizedPrompts& prompts,
                                      std::span<const RolloutTask> tasks, std::span<const int> whose,
                                      RolloutTimes& times, const std::function<void(const char*)>& says);

 private:
  using Says = std::function<void(const char*)>;
  // A conversation while its turns are drawn.
  struct Talk {
    Rollout rollout;
    int whose = 0;  // the rank of the replica that asks for it
    SamplingParameters sampling;
    std::vector<ChatMessage> turns;  // behind the prompt; texts are of the model as it showed them
    bool open = true;
  };
  std::vector<Talk> begin_talks(const TokenizedPrompts& prompts, std::span<const RolloutTask> tasks,
                                std::span<const int> whose) const;
  Status generate(const TokenizedPrompts& prompts, std::span<const RolloutTask> tasks, InferenceWeights weights,
                  std::vector<Talk>& talks, RolloutTimes& times, const Says& says);
  Status draw_turn(std::int64_t turn, std::vector<Talk>& talks, const Says& says);
  Status ask_environment(std::int64_t turn, const TokenizedPrompts& prompts, std::span<const RolloutTask> tasks,
                         std::vector<Talk>& talks, const Says& says);
  void take_reply(const EnvironmentReply& given, Talk& talk) const;
  // `questions`: of each rollout.
  Status judge(const std::vector<RewardQuestion>& questions, std::vector<Rollout>& rollouts, const Says& says);
  Status judge_by_model(std::span<Rollout* const> rollouts, const Says& says);
  Status compare(std::vector<Talk>& talks, const Says& says);

  const Clock& clock_;
  AlignSettings settings_;
  ComputeContext compute_;  // of its own: the training's is used meanwhile
  const ChatEncoder& encoder_;
  DrawingTeam& team_;
  RolloutModel model_;
  Environment environment_;
  Judges judges_;
};

}  // namespace longhaul
