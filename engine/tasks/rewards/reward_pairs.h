// Room engine/tasks/rewards
// Reward models in stages: pairs as batches, and what a trained model says of texts.
// reward_pairs.h makes batches of pairs, rated_answers.h of answers with values of attributes or labels of steps;
// reward_accuracy.h and rating_figures.h judge a model by held-out ones; reward_model.h is one that judges the answers
// of another model's training. stage_reward.h makes the reward of a stage's settings, with endpoint_reward.h, which
// asks a program elsewhere, and program_reward.h, which runs tests. The loss is in engine/align/scores,
// engine/train/step/sequence_rewards.h asks a model; it knows no stage.
//
// Pairs of answers as a reward model reads them: each text ends with the answer's last token, which is the one that
// ends the assistant's turn. What a template writes behind it is left out, so that an answer that has just been
// generated is read in the same way. transformers' sequence classifiers take the last token that is not the padding
// one, which is the same.
#pragma once

#include <string>
#include <vector>

#include "engine/data/rows/step_places.h"
#include "engine/data/samples/instruct_data.h"
#include "engine/data/samples/sampler.h"
#include "engine/train/step/batch_source.h"

namespace longhaul {

struct RewardPair {
  std::vector<std::int32_t> chosen, rejected;
  double margin = 0;
  std::string category = {};
  int line = 0;                                      // of its file
  std::size_t chosen_begin = 0, rejected_begin = 0;  // of the answers
};
struct RewardPairs {
  std::vector<RewardPair> pairs;
  std::int64_t too_long = 0;  // left out: more than room.tokens()
};
// Of a file of rows. invalid_input: rows that are wrong, or nothing that fits; room.length is sequence_length there.
Result<RewardPairs> read_reward_pairs(const std::string& file, std::span<const std::string> ignore,
                                      const ChatEncoder& encoder, TextRoom room);

// Each pair is two neighbouring sequences, as engine/align/scores/score_objective.h wants them.
class RewardPairSource final : public BatchSource {
 public:
  // `before`: as of fill_scored_rows(); counted in sequence_length.
  RewardPairSource(std::vector<RewardPair> pairs, std::int64_t sequence_length, std::uint64_t seed, SampleOrder order,
                   std::vector<std::int32_t> before = {})
      : pairs_(std::move(pairs)),
        before_(std::move(before)),
        sequence_length_(sequence_length),
        seed_(seed),
        order_(order) {}
  Status fill(std::int64_t first, std::int64_t count, BatchStorage& out) override;
  std::int64_t samples_per_epoch() const override { return static_cast<std::int64_t>(pairs_.size()); }
  const std::vector<RewardPair>& pairs() const { return pairs_; }

 private:
  std::vector<RewardPair> pairs_;
  std::vector<std::int32_t> before_;
  std::int64_t sequence_length_;
  std::uint64_t seed_;
  SampleOrder order_;
};

}  // namespace longhaul
