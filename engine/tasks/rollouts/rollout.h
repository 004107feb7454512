// An answer of the model in training and what is known of it, what is asked for, and how long that took.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/align/reward.h"
#include "engine/data/samples/prompt_rows.h"
#include "engine/infer/generate/answer_batch.h"

namespace longhaul {

struct Rollout {
  ChatTokens tokens;                                // prompt and answer; the answer is what is learnt
  std::vector<double> drawn, reference;             // of the answer's tokens; reference: empty where there is none
  std::vector<double> values, advantages, returns;  // with a critic; advantages with a teacher, too
  Reward reward;                                    // 0 where nothing judges
  double penalty = 0;                               // of its length (engine/align/overlong.h), where it is learnt from
  int line = 0;                                     // of its prompt in the file of prompts
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
  double beside = 0, wait = 0;   // of these three what went on beside a step before; what was then waited for
  double value = 0, critic = 0;  // with a critic: its values of the answers, and its own update
  double fill = 0;               // all that is done for the step's batch, on this rank
  double phases() const { return reshard + generate + reward + reference - beside + wait + value + critic; }
  double other() const { return fill > phases() ? fill - phases() : 0; }
};

}  // namespace longhaul
