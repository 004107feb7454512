#include "engine/tasks/rollouts/answer_rows.h"

#include "engine/align/policy_objective.h"
#include "engine/tasks/common/token_files.h"

namespace longhaul {

void AnswerRows::add(const Rollout& rollout, double advantage, double scale) {
  const double reward = rollout.reward.value.value_or(0);
  rows_.push_back(&rollout);
  for (const double number : {advantage, scale, reward, reward >= 1 ? 1.0 : 0.0}) out_.per_sequence.push_back(number);
}

std::vector<std::size_t> AnswerRows::places_of(const Rollout& rollout, std::size_t row, const BatchStorage& batch,
                                               std::size_t before) {
  const std::size_t begin = row * static_cast<std::size_t>(batch.length) + before;
  std::vector<std::size_t> places;
  for (std::size_t i = 1; i < rollout.tokens.loss_mask.size(); ++i)
    if (rollout.tokens.loss_mask[i] != 0) places.push_back(begin + i - 1);
  LH_ASSERT(places.size() == rollout.drawn.size(), std::to_string(places.size()));
  return places;
}

void AnswerRows::put(std::int64_t sequence_length) {
  std::vector<const ChatTokens*> tokens;
  for (const Rollout* rollout : rows_) tokens.push_back(&rollout->tokens);
  fill_examples(tokens, sequence_length, out_, before_);
  const auto of_tokens = [&](std::vector<double> Rollout::* from, std::vector<float>& to) {
    to.clear();
    if (rows_.empty() || (rows_.front()->*from).empty()) return;
    to.assign(out_.ids.size(), 0.0F);
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      const std::vector<std::size_t> places = places_of(*rows_[row], row, out_, before_.size());
      for (std::size_t i = 0; i < places.size(); ++i) to[places[i]] = static_cast<float>((rows_[row]->*from)[i]);
    }
  };
  of_tokens(&Rollout::drawn, out_.drawn), of_tokens(&Rollout::reference, out_.reference);
  of_tokens(&Rollout::advantages, out_.advantages);
  of_tokens(&Rollout::values, out_.values), of_tokens(&Rollout::returns, out_.returns);
}

}  // namespace longhaul
