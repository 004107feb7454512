// What is counted of a rollout, over all ranks, and what of it a step's metric has.
#pragma once

#include <vector>

#include "base/value/value.h"
#include "contracts/settings/training/training.h"
#include "engine/align/group_advantage.h"
#include "engine/parallel/mesh/collective_group.h"
#include "engine/tasks/rollouts/rollout.h"

namespace longhaul {

// Sums over answers; of those that were replaced only what says so.
struct RolloutFigures {
  double answers = 0, tokens = 0, cut = 0, faults = 0, groups = 0, equal_groups = 0;
  double turns = 0;                         // of the model
  double read = 0;                          // tokens that the model read before its turns
  double environment_faults = 0;            // answers, those of replaced groups included
  double drafted = 0, accepted = 0;         // tokens that were guessed
  double decode_steps = 0;                  // of turns: 1 for each token but the first where none is guessed
  double log_probability = 0;               // of all tokens, under the model that drew them
  double redrawn = 0;                       // groups that were replaced
  double redrawn_faults = 0;                // answers without a reward in them
  double all_answers = 0, all_rewards = 0;  // those of replaced groups included
  double rewards = 0, reward_squares = 0;   // of answers that have one, as they were judged
  double shaped = 0, penalties = 0;         // answers with a penalty of their length, and these
  AdvantageSums advantages;                 // of tokens
  AdvantageSums returns;                    // with a critic
  double divergence = 0;                    // with a critic: estimates of all tokens
  std::vector<double> batch_tokens;         // of each minibatch, of answers that are learnt from
  double without_fault() const { return answers - faults; }
  void count(const Rollout& rollout);
};

// Of the phases of a rollout the slowest rank's time counts. Collective.
Status take_slowest(CollectiveGroup& group, RolloutTimes& times);
// The same, and figures are added: over ranks that hold different answers. Collective.
Status add_over_ranks(CollectiveGroup& group, RolloutFigures& figures, RolloutTimes& times);

void add_rollout_metrics(const AlignSettings& settings, const RolloutFigures& figures, const RolloutTimes& times,
                         Value& fields);

}  // namespace longhaul
