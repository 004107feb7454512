#include "engine/align/labels/label_objective.h"

namespace longhaul {

ObjectiveSums LabelObjective::sums_of(const JudgedBatch& batch, std::span<const float> token_losses,
                                      std::span<float> weights) {
  ObjectiveSums sums;
  for (std::size_t sequence = 0; sequence < static_cast<std::size_t>(batch.sequences); ++sequence) {
    const double* of = &batch.per_sequence[sequence * LabelPlace::fields];
    const double divergence = of[LabelPlace::divergence];
    const bool desirable = of[LabelPlace::desirable] > 0;
    const double ratio = answer_sum(batch, sequence, token_losses).log_probability - of[LabelPlace::reference];
    const LabelLoss loss = kto_loss(settings_, ratio, divergence, desirable);
    sums.loss += loss.loss, sums.count += 1;
    sums.extra[0] += (desirable ? ratio > divergence : ratio < divergence) ? 1 : 0;
    sums.extra[1] += desirable ? ratio : -ratio;
    sums.extra[2] += divergence;
    set_answer_weights(batch, sequence, -loss.slope, weights);  // d log p / d(token loss) = -1
  }
  return sums;
}

}  // namespace longhaul
