// The likeliest answer to each of held-out prompts, by the weights as they stand; its advantage is its reward. With a
// teacher an answer that is drawn, the same way at every evaluation: what it estimates is a mean over such answers.
#pragma once

#include "engine/data/samples/prompt_rows.h"
#include "engine/tasks/rollouts/rollout_figures.h"
#include "engine/tasks/rollouts/rollouts.h"
#include "engine/train/step/batch_source.h"

namespace longhaul {

class HeldoutRollouts final : public BatchSource {
 public:
  // Borrows the rollouts.
  HeldoutRollouts(Rollouts& rollouts, const AlignSettings& settings, TokenizedPrompts prompts)
      : rollouts_(rollouts), settings_(settings), prompts_(std::move(prompts)) {}
  // Samples of one evaluation come in rising order; one that falls, or other weights, begin another. Its last may come
  // again, and count once.
  Status fill(std::int64_t first, std::int64_t count, BatchStorage& out) override;
  std::int64_t samples_per_epoch() const override { return static_cast<std::int64_t>(prompts_.ids.size()); }
  // Of the last evaluation, over the ranks of `group`, which answered different prompts: how long answers are, and how
  // far rewards differ. Collective.
  Status add_figures(CollectiveGroup& group, std::vector<Figure>& figures) const;

 private:
  RolloutTask task_of(std::int64_t prompt) const;

  Rollouts& rollouts_;
  AlignSettings settings_;
  TokenizedPrompts prompts_;
  std::int64_t held_first_ = 0, last_ = -1, version_ = -1;
  std::vector<Rollout> held_;
  RolloutFigures figures_;
};

}  // namespace longhaul
