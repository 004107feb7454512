#include "engine/curate/words.h"

#include "engine/curate/unicode.h"

namespace longhaul {

std::vector<Word> split_words(std::string_view text) {
  std::vector<Word> words;
  words.reserve(text.size() / 5);
  Word word;
  bool open = false;
  const auto close = [&] {
    if (open) words.push_back(word);
    open = false;
  };
  for (std::size_t pos = 0; pos < text.size();) {
    const auto begin = static_cast<std::uint32_t>(pos);
    const char32_t c = next_code_point(text, pos);
    if (!is_word_char(c)) {
      close();
      continue;
    }
    const bool unspaced = c >= 0x0E00 && is_unspaced_script(c);
    const bool mark = c >= 0x300 && !is_letter(c) && !is_digit(c);  // belongs to the letter before it
    if (unspaced && !(mark && open)) close();
    if (!unspaced && open && word.unspaced && !mark) close();
    if (!open) {
      word = Word();
      word.begin = begin;
      word.unspaced = unspaced;
      open = true;
    }
    word.end = static_cast<std::uint32_t>(pos);
    ++word.letters;
    word.alphabetic = word.alphabetic || is_letter(c);
  }
  close();
  return words;
}

}  // namespace longhaul
