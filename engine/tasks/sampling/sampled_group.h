// Room engine/tasks/sampling
// Answers that a finished model draws to prompts, what they are worth, and which are kept: the stage kind `sample`.
// answer_sampler.h draws and judges them on one rank; kept_rows.h chooses and writes rows; sample_figures.h counts.
// Rewards are made in engine/align and engine/tasks/rewards, answers in engine/infer; nothing is trained here.
//
// The answers to one prompt.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/align/reward.h"

namespace longhaul {

struct SampledAnswer {
  std::vector<std::int32_t> tokens;  // the token that ended it included
  std::string text;                  // without control tokens
  bool cut = false;                  // it had no end at max_new_tokens
  Reward reward;
};
struct SampledGroup {
  std::size_t prompt = 0;  // of the prompts
  std::vector<SampledAnswer> answers;
};

}  // namespace longhaul
