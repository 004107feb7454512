// How a long text is scored by a model with a short memory: windows that overlap, each token scored exactly once, with
// at least (context - stride) tokens before it once the text has that many.
#pragma once

#include <cstdint>
#include <vector>

namespace longhaul {

struct TextWindow {
  std::int64_t begin = 0, end = 0;  // tokens of the window
  std::int64_t scored_from = 0;     // tokens [scored_from, end) are scored here
};
// tokens: of the text with its start token in front (token 0, never scored). Windows have at most context + 1 tokens:
// the last is only predicted. stride in [1, context].
std::vector<TextWindow> text_windows(std::int64_t tokens, std::int64_t context, std::int64_t stride);

// Wilson score interval of a proportion (Wilson 1927), z = 1.96 for 95 %.
struct Interval {
  double low = 0, high = 0;
};
Interval wilson_interval(double successes, double trials, double z = 1.959963984540054);

}  // namespace longhaul
