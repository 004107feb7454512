// What an answer near the longest one costs (rollout.overlong = "shape"), from its reward on: with n tokens, of M at
// most, and an interval of C tokens before M
//   penalty  P min(1, max(0, n - (M - C)) / C)
// Yu et al. 2025, "DAPO" (arXiv:2503.14476), equation 13 (soft overlong punishment), where P is 1. An answer that was
// cut has M tokens, and so the whole penalty, as has one that ends with its M-th.
#pragma once

#include <algorithm>

#include "contracts/settings/training/training.h"

namespace longhaul {

// tokens: of the answer, the one that ends it included. 0 where answers are not shaped.
inline double overlong_penalty(const RolloutSettings& rollout, std::int64_t tokens) {
  if (rollout.overlong != "shape") return 0;
  const std::int64_t over = tokens - (rollout.max_new_tokens - rollout.overlong_tokens);
  const double share = static_cast<double>(over) / static_cast<double>(rollout.overlong_tokens);
  return rollout.overlong_penalty * std::clamp(share, 0.0, 1.0);
}

}  // namespace longhaul
