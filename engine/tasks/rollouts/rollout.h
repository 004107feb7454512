// An answer of the model in training and what is known of it, what is asked for, and how long that took.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "engine/align/reward.h"
#include "engine/data/samples/prompt_rows.h"
#include "engine/infer/generate/answer_batch.h"

namespace longhaul {

struct Rollout {
  // The prompt, and behind it the model's turns, which are learnt, each but the first after what an environment said
  // and the tokens that open the model's turn again, which are not.
  ChatTokens tokens;
  // Of the tokens that are learnt, in their order: what an environment wrote has no numbers. reference: empty where
  // there is none.
  std::vector<double> drawn, reference;
  std::vector<double> values, advantages, returns;  // with a critic; advantages with a teacher, too
  Reward reward;                                    // 0 where nothing judges
  double penalty = 0;                               // of its length (engine/align/overlong.h), where it is learnt from
  int line = 0;                                     // of its prompt in the file of prompts
  bool cut = false;                                 // its last turn had no end, or the sequence no room for another one
  std::int64_t turns = 1;                           // of the model
  std::int64_t read = 0;                            // tokens that the model read for it before each of its turns
  bool environment_failed = false;                  // then nothing judges it, and it has no reward
  std::int64_t drafted = 0, accepted = 0, decode_steps = 0;  // GenerationUsage
  // Of the first token that the model wrote; not 0.
  std::size_t answer_begin() const {
    return static_cast<std::size_t>(std::ranges::find(tokens.loss_mask, 1) - tokens.loss_mask.begin());
  }
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
  double generate = 0, environment = 0, reward = 0, reference = 0;
  double beside = 0, wait = 0;   // of these four what went on beside a step before; what was then waited for
  double value = 0, critic = 0;  // with a critic: its values of the answers, and its own update
  double fill = 0;               // all that is done for the step's batch, on this rank
  double phases() const {
    return reshard + generate + environment + reward + reference - beside + wait + value + critic;
  }
  double other() const { return fill > phases() ? fill - phases() : 0; }
};

}  // namespace longhaul
