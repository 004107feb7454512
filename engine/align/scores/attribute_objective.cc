#include "engine/align/scores/attribute_objective.h"

#include "base/text/text.h"
#include "engine/align/scores/attribute_loss.h"
#include "engine/align/scores/scored_token.h"

namespace longhaul {

ObjectiveSums AttributeObjective::sums_of(const JudgedBatch& batch, std::span<const float> numbers,
                                          std::span<float> weights) {
  LH_ASSERT(numbers.size() == batch.targets.size() * attributes_, format("{} numbers of a batch", numbers.size()));
  ObjectiveSums sums;
  for (std::size_t sequence = 0; sequence < static_cast<std::size_t>(batch.sequences); ++sequence) {
    const std::size_t at = scored_token(batch, sequence) * attributes_;
    const std::vector<double> own(numbers.begin() + static_cast<std::ptrdiff_t>(at),
                                  numbers.begin() + static_cast<std::ptrdiff_t>(at + attributes_));
    const AttributeLoss loss = attribute_loss(own, batch.per_sequence.subspan(sequence * attributes_, attributes_));
    sums.loss += loss.loss, sums.count += loss.values;
    sums.extra[0] += loss.absolute;
    for (std::size_t i = 0; i < attributes_; ++i) weights[at + i] = static_cast<float>(loss.slopes[i]);
  }
  return sums;
}

}  // namespace longhaul
