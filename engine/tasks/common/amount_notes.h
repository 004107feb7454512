// Settings in absolute numbers that are larger than a small data set can fill. Nothing is refused for it: the training
// says what it makes of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace longhaul {

struct TrainingAmounts {
  std::int64_t samples = 0;  // of an epoch
  std::int64_t steps = 0;
  std::int64_t global_batch_size = 0;
  std::int64_t warmup_steps = 0;                                  // 0: none, or phases say it
  std::int64_t checkpoint_every_steps = 0, eval_every_steps = 0;  // 0: at the end alone
};

// A sentence for each setting that acts otherwise than it reads. Pure.
std::vector<std::string> notes_on_amounts(const TrainingAmounts& amounts);

}  // namespace longhaul
