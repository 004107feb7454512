// Words of any script, for rules and for shingles.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace longhaul {

// A run of letters, marks and digits, or one letter of a script that writes no blanks (Han, kana, Thai, ...).
struct Word {
  std::uint32_t begin = 0;  // bytes [begin, end) of the text
  std::uint32_t end = 0;
  std::uint32_t letters = 0;  // code points
  bool alphabetic = false;    // holds a letter
  bool unspaced = false;      // one letter of a script without blanks: about half a word
};

// `text` is valid UTF-8 below 4 GiB.
std::vector<Word> split_words(std::string_view text);

}  // namespace longhaul
