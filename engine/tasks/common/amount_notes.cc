#include "engine/tasks/common/amount_notes.h"

#include "base/text/text.h"

namespace longhaul {

std::vector<std::string> notes_on_amounts(const TrainingAmounts& a) {
  std::vector<std::string> notes;
  if (a.samples > 0 && a.samples < a.global_batch_size)
    notes.push_back(
        format("global_batch_size = {} is more than the {} samples of the data: each step takes some of them more than "
               "once; lower it or sequence_length, or give more data",
               a.global_batch_size, a.samples));
  if (a.warmup_steps > 0 && a.steps < 2 * a.warmup_steps)
    notes.push_back(format("optimizer.warmup_steps = {} is more than half of the {} steps: the warm-up ends after {}",
                           a.warmup_steps, a.steps, a.steps / 2));
  if (a.checkpoint_every_steps > a.steps)
    notes.push_back(format("checkpoint.every_steps = {} is more than the {} steps: only the last one is saved",
                           a.checkpoint_every_steps, a.steps));
  if (a.eval_every_steps > a.steps)
    notes.push_back(format("eval_every_steps = {} is more than the {} steps: the held-out loss is computed at the end",
                           a.eval_every_steps, a.steps));
  return notes;
}

}  // namespace longhaul
