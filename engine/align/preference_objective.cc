#include "engine/align/preference_objective.h"

#include <algorithm>

namespace longhaul {

ObjectiveSums PreferenceObjective::sums_of(const JudgedBatch& batch, std::span<const float> token_losses,
                                           std::span<float> weights) {
  ObjectiveSums sums;
  for (std::size_t pair = 0; pair + 1 < static_cast<std::size_t>(batch.sequences); pair += 2) {
    const AnswerSum chosen = answer_sum(batch, pair, token_losses);
    const AnswerSum rejected = answer_sum(batch, pair + 1, token_losses);
    const bool per_token = settings_.length_normalized;
    const double chosen_scale = per_token ? 1 / std::max(1.0, chosen.tokens) : 1;
    const double rejected_scale = per_token ? 1 / std::max(1.0, rejected.tokens) : 1;
    const PairScores scores{chosen.log_probability * chosen_scale, rejected.log_probability * rejected_scale,
                            batch.per_sequence[pair] * chosen_scale, batch.per_sequence[pair + 1] * rejected_scale};
    const PairLoss loss = method_.loss(settings_, scores);
    const double sft = settings_.sft_weight / std::max(1.0, chosen.tokens);
    const double chosen_ratio = scores.chosen - scores.chosen_reference;
    const double rejected_ratio = scores.rejected - scores.rejected_reference;
    sums.loss += loss.loss - sft * chosen.log_probability;
    sums.count += 1;
    sums.extra[0] += chosen_ratio > rejected_ratio ? 1 : 0;
    sums.extra[1] += chosen_ratio - rejected_ratio;
    sums.extra[2] += settings_.beta * chosen_ratio;
    sums.extra[3] += settings_.beta * rejected_ratio;
    // d log p / d(token loss) = -1.
    set_answer_weights(batch, pair, -loss.d_chosen * chosen_scale + sft, weights);
    set_answer_weights(batch, pair + 1, -loss.d_rejected * rejected_scale, weights);
  }
  return sums;
}

}  // namespace longhaul
