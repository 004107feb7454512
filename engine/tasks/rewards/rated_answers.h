// Answers with values of attributes, or with labels of their steps, as batches of a reward model's training.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "contracts/settings/training/training.h"
#include "engine/data/rows/step_places.h"
#include "engine/data/samples/sampler.h"
#include "engine/data/samples/text_room.h"
#include "engine/train/step/batch_source.h"
#include "engine/train/step/sequence_rewards.h"

namespace longhaul {

struct RatedAnswer {
  std::vector<std::int32_t> ids;    // as JudgedTokens has them
  std::vector<std::size_t> places;  // where its numbers stand
  std::vector<double> values;       // of attributes, at the one place; or a label of each place. NaN: not said
  std::string category = {};
  int line = 0;  // of its file
};
struct RatedAnswers {
  std::vector<RatedAnswer> answers;
  std::int64_t too_long = 0;  // left out: more than room.tokens()
};
// Of a file of rows, by the form's method. invalid_input: rows that are wrong, steps that are no steps in tokens, or
// nothing that fits. `needs_value`: as of rated_of_row.
Result<RatedAnswers> read_rated_answers(const std::string& file, const RewardForm& form,
                                        std::span<const std::string> ignore, const Tokenizer& tokenizer,
                                        const ChatEncoder& encoder, TextRoom room, bool needs_value);

// As AttributeObjective and StepObjective want them, one sequence for each answer.
class RatedAnswerSource final : public BatchSource {
 public:
  // `before`: as of fill_scored_rows(); counted in sequence_length.
  RatedAnswerSource(std::vector<RatedAnswer> answers, bool steps, std::int64_t sequence_length, std::uint64_t seed,
                    SampleOrder order, std::vector<std::int32_t> before = {})
      : answers_(std::move(answers)),
        before_(std::move(before)),
        steps_(steps),
        sequence_length_(sequence_length),
        seed_(seed),
        order_(order) {}
  Status fill(std::int64_t first, std::int64_t count, BatchStorage& out) override;
  std::int64_t samples_per_epoch() const override { return static_cast<std::int64_t>(answers_.size()); }
  const std::vector<RatedAnswer>& answers() const { return answers_; }

 private:
  std::vector<RatedAnswer> answers_;
  std::vector<std::int32_t> before_;
  bool steps_;
  std::int64_t sequence_length_;
  std::uint64_t seed_;
  SampleOrder order_;
};

// The texts of answers, for numbers_at; borrowed.
std::vector<AskedText> asked_texts(std::span<const RatedAnswer> answers);

}  // namespace longhaul
