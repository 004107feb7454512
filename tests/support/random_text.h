// Random texts for tests: valid UTF-8 that mixes what pre-tokenizers treat apart.
#pragma once

#include <string>

#include "base/digest/philox.h"
#include "engine/data/tokenizer/utf8.h"

namespace longhaul {

inline std::string random_utf8(PhiloxSequence& draw, std::size_t characters) {
  static const char* const pieces[] = {"'s",
                                       "'LL",
                                       " ",
                                       "  ",
                                       "\n",
                                       "\r\n",
                                       "\t",
                                       "\xC2\xA0",
                                       "\xE3\x80\x80",
                                       "12",
                                       "1234",
                                       "Hello",
                                       " the",
                                       "...",
                                       "'",
                                       "<|endoftext|>",
                                       "<|end|>",
                                       "\xE4\xB8\xAD\xE6\x96\x87"};
  std::string text;
  for (std::size_t i = 0; i < characters; ++i) {
    const std::uint64_t kind = draw.next_below(6);
    if (kind == 0) {
      text += pieces[draw.next_below(std::size(pieces))];
    } else {
      static constexpr std::uint32_t limits[] = {0x80, 0x250, 0x3100, 0x10000, 0x110000};
      std::uint32_t c = static_cast<std::uint32_t>(draw.next_below(limits[kind - 1]));
      if (c >= 0xD800 && c < 0xE000) c = 0x61;
      append_utf8(text, c);
    }
  }
  return text;
}

inline std::string random_bytes(PhiloxSequence& draw, std::size_t count) {
  std::string bytes;
  for (std::size_t i = 0; i < count; ++i) bytes += static_cast<char>(draw.next_below(256));
  return bytes;
}

}  // namespace longhaul
