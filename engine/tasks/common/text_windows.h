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

}  // namespace longhaul
