#include "engine/data/tokenizer/utf8.h"

namespace longhaul {

std::size_t valid_utf8_prefix(std::string_view text) {
  const auto* s = reinterpret_cast<const unsigned char*>(text.data());
  const std::size_t n = text.size();
  std::size_t i = 0;
  const auto continues = [&](std::size_t at, unsigned low = 0x80, unsigned high = 0xBF) {
    return at < n && s[at] >= low && s[at] <= high;
  };
  while (i < n) {
    const unsigned c = s[i];
    if (c < 0x80) {
      ++i;
    } else if (c >= 0xC2 && c <= 0xDF) {
      if (!continues(i + 1)) return i;
      i += 2;
    } else if (c >= 0xE0 && c <= 0xEF) {
      if (!continues(i + 1, c == 0xE0 ? 0xA0 : 0x80, c == 0xED ? 0x9F : 0xBF) || !continues(i + 2)) return i;
      i += 3;
    } else if (c >= 0xF0 && c <= 0xF4) {
      if (!continues(i + 1, c == 0xF0 ? 0x90 : 0x80, c == 0xF4 ? 0x8F : 0xBF) || !continues(i + 2) || !continues(i + 3))
        return i;
      i += 4;
    } else {
      return i;
    }
  }
  return n;
}

}  // namespace longhaul
