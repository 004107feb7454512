// Which answers to a prompt are kept (SampleSettings::keep), and the rows that say so, in JSON Lines:
//   all     {"line", "sample", "prompt", "completion", "answer", "reward", "problem", "cut"} for every answer
//   best    {"prompt", "completion"}: the best answer, where its reward is above reward_above
//   pairs   {"prompt", "chosen", "rejected"}: the best and the worst, where their rewards are further apart than
//           margin_above and their texts differ
// The best of several that are equally good is the first drawn, the worst of several equally bad ones too. An answer
// that was cut, has no reward or no text is never among best and pairs.
#pragma once

#include <optional>
#include <string>

#include "contracts/settings/stages/sample.h"
#include "engine/data/samples/prompt_rows.h"
#include "engine/tasks/sampling/sampled_group.h"

namespace longhaul {

struct BestAndWorst {
  std::size_t best = 0, worst = 0;
};
// Of the answers that may be kept; nothing where there are none.
std::optional<BestAndWorst> best_and_worst(const SampledGroup& group);

// "" where nothing of the group is kept; `rows` of them otherwise.
struct KeptRows {
  std::string text;
  std::int64_t rows = 0;
};
KeptRows kept_rows(const SampleSettings& settings, const PromptExample& prompt, const SampledGroup& group);

// The file of the artifact that the rows are in.
const char* kept_file_name(const SampleSettings& settings);

}  // namespace longhaul
