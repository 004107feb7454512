#include "engine/align/scores/score_objective.h"

#include "engine/align/scores/bradley_terry.h"
#include "engine/align/scores/scored_token.h"

namespace longhaul {

ObjectiveSums ScoreObjective::sums_of(const JudgedBatch& batch, std::span<const float> token_losses,
                                      std::span<float> weights) {
  ObjectiveSums sums;
  for (std::size_t pair = 0; pair + 1 < static_cast<std::size_t>(batch.sequences); pair += 2) {
    const std::size_t at_chosen = scored_token(batch, pair), at_rejected = scored_token(batch, pair + 1);
    const auto chosen = static_cast<double>(token_losses[at_chosen]),
               rejected = static_cast<double>(token_losses[at_rejected]);
    const PairScoreLoss loss = bradley_terry_loss(chosen, rejected, batch.per_sequence[pair], settings_.center_weight);
    sums.loss += loss.loss, sums.count += 1;
    sums.extra[0] += chosen > rejected ? 1 : 0;
    sums.extra[1] += chosen - rejected;
    sums.extra[2] += chosen, sums.extra[3] += rejected;
    weights[at_chosen] = static_cast<float>(loss.d_chosen), weights[at_rejected] = static_cast<float>(loss.d_rejected);
  }
  return sums;
}

}  // namespace longhaul
