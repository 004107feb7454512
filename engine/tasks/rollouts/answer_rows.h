// Answers as rows of a batch, with what objectives ask of each of them and of its tokens.
#pragma once

#include <span>
#include <vector>

#include "engine/tasks/rollouts/rollout.h"
#include "engine/train/step/batch_source.h"

namespace longhaul {

class AnswerRows {
 public:
  // `before`: ids that stand before each answer's prompt, as of fill_examples(); they live as long as this.
  explicit AnswerRows(BatchStorage& out, std::span<const std::int32_t> before = {}) : out_(out), before_(before) {
    out.per_sequence.clear();
  }
  // Borrowed. `scale`: of each of its tokens' losses. The reward that is reported is that without the penalty.
  void add(const Rollout& rollout, double advantage, double scale);
  void put(std::int64_t sequence_length);
  // Where numbers of a rollout's learnt tokens stand in arrays of the batch, whose row it is, behind `before` ids: the
  // places that predict them, in their order.
  static std::vector<std::size_t> places_of(const Rollout& rollout, std::size_t row, const BatchStorage& batch,
                                            std::size_t before = 0);

 private:
  BatchStorage& out_;
  std::span<const std::int32_t> before_;
  std::vector<const Rollout*> rows_;
};

}  // namespace longhaul
