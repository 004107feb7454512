#include "engine/curate/filter/words.h"

#include <algorithm>

#include "engine/curate/extract/unicode.h"

namespace longhaul {
namespace {

constexpr std::size_t run_bytes_max = 1 << 14;  // given to the dictionary at once

class WordSplitter {
 public:
  explicit WordSplitter(std::string_view text) : text_(text) { words_.reserve(text.size() / 5); }

  std::vector<Word> run() {
    for (std::size_t pos = 0; pos < text_.size();) {
      const std::size_t begin = pos;
      const char32_t c = next_code_point(text_, pos);
      if (c >= 0x0E00 && is_dictionary_script(c) && is_word_char(c)) {
        close();
        pos = split_by_dictionary(begin);
        continue;
      }
      if (!is_word_char(c)) {
        close();
        continue;
      }
      add(c, begin, pos);
    }
    close();
    return std::move(words_);
  }

 private:
  void add(char32_t c, std::size_t begin, std::size_t end) {
    const bool unspaced = c >= 0x0E00 && is_unspaced_script(c);
    const bool mark = c >= 0x300 && !is_letter(c) && !is_digit(c);  // belongs to the letter before it
    if (unspaced && !(mark && open_)) close();
    if (!unspaced && open_ && word_.unspaced && !mark) close();
    if (!open_) {
      word_ = Word();
      word_.begin = static_cast<std::uint32_t>(begin);
      word_.unspaced = word_.half = unspaced;
      open_ = true;
    }
    word_.end = static_cast<std::uint32_t>(end);
    ++word_.letters;
    word_.alphabetic = word_.alphabetic || is_letter(c);
  }

  // From `begin` as long as the script is one whose words only a dictionary knows; where that ends.
  std::size_t split_by_dictionary(std::size_t begin) {
    std::size_t end = begin;
    for (std::size_t pos = begin; pos < text_.size() && pos - begin < run_bytes_max;) {
      const char32_t c = next_code_point(text_, pos);
      if (!is_dictionary_script(c) || !is_word_char(c)) break;
      end = pos;
    }
    std::uint32_t at = 0;
    for (const std::uint32_t stop : word_ends(text_.substr(begin, end - begin))) {
      Word word;
      word.begin = static_cast<std::uint32_t>(begin + at);
      word.end = static_cast<std::uint32_t>(begin + stop);
      word.unspaced = true;
      for (std::size_t pos = word.begin; pos < word.end; ++word.letters) {
        word.alphabetic = is_letter(next_code_point(text_, pos)) || word.alphabetic;
      }
      words_.push_back(word);
      at = stop;
    }
    return end;
  }

  void close() {
    if (open_) words_.push_back(word_);
    open_ = false;
  }

  std::string_view text_;
  std::vector<Word> words_;
  Word word_;
  bool open_ = false;
};

}  // namespace

std::vector<Word> split_words(std::string_view text) {
  return WordSplitter(text).run();
}

}  // namespace longhaul
