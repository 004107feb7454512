// Words of any script, for rules and for shingles.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace longhaul {

// A run of letters, marks and digits; in scripts that write no blanks a word of ICU's dictionary (Thai, Lao, Khmer,
// Burmese), or one letter (Han, kana).
struct Word {
  std::uint32_t begin = 0;  // bytes [begin, end) of the text
  std::uint32_t end = 0;
  std::uint32_t letters = 0;  // code points
  bool alphabetic = false;    // holds a letter
  bool unspaced = false;      // of a script without blanks
  bool half = false;          // one letter of Han or kana: about half a word
  double weight() const { return half ? 0.5 : 1; }
};

// `text` is valid UTF-8 below 4 GiB.
std::vector<Word> split_words(std::string_view text);

}  // namespace longhaul
