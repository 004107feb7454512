#include "engine/tasks/common/text_windows.h"

#include <algorithm>

namespace longhaul {

std::vector<TextWindow> text_windows(std::int64_t tokens, std::int64_t context, std::int64_t stride) {
  std::vector<TextWindow> windows;
  for (std::int64_t scored = 1; scored < tokens;) {
    // The first window scores a whole context, each later one a stride.
    const std::int64_t end = std::min(tokens, windows.empty() ? context + 1 : scored + stride);
    windows.push_back({std::max<std::int64_t>(0, end - context - 1), end, scored});
    scored = end;
  }
  return windows;
}

}  // namespace longhaul
