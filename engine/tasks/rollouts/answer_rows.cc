#include "engine/tasks/rollouts/answer_rows.h"

#include "engine/align/policy_objective.h"
#include "engine/tasks/common/token_files.h"

namespace longhaul {

void AnswerRows::add(const Rollout& rollout, double advantage, double scale) {
  const double reward = rollout.reward.value.value_or(0);
  rows_.push_back(&rollout);
  for (const double number : {advantage, scale, reward, reward >= 1 ? 1.0 : 0.0}) out_.per_sequence.push_back(number);
}

std::size_t AnswerRows::begin_of(const Rollout& rollout, std::size_t row, const BatchStorage& batch) {
  return row * static_cast<std::size_t>(batch.length) + rollout.tokens.ids.size() - rollout.drawn.size() - 1;
}

void AnswerRows::put(std::int64_t sequence_length) {
  std::vector<const ChatTokens*> tokens;
  for (const Rollout* rollout : rows_) tokens.push_back(&rollout->tokens);
  fill_examples(tokens, sequence_length, out_);
  const auto of_tokens = [&](std::vector<double> Rollout::* from, std::vector<float>& to) {
    to.clear();
    if (rows_.empty() || (rows_.front()->*from).empty()) return;
    to.assign(out_.ids.size(), 0.0F);
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      std::size_t at = begin_of(*rows_[row], row, out_);
      for (const double number : rows_[row]->*from) to[at++] = static_cast<float>(number);
    }
  };
  of_tokens(&Rollout::drawn, out_.drawn), of_tokens(&Rollout::reference, out_.reference);
  of_tokens(&Rollout::advantages, out_.advantages);
  of_tokens(&Rollout::values, out_.values), of_tokens(&Rollout::returns, out_.returns);
}

}  // namespace longhaul
