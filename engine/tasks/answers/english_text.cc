#include "engine/tasks/answers/english_text.h"

#include <algorithm>

#include "base/text/text.h"
#include "engine/data/jinja/values/jinja_text.h"
#include "engine/data/jinja/values/text_case.h"
#include "engine/data/tokenizer/utf8.h"

namespace longhaul {
namespace {

enum class LetterCase { none, lower, upper };

// Of the character that begins at `at`, which moves behind it.
LetterCase next_case(std::string_view text, std::size_t& at) {
  const CodePoint c = read_utf8(text, at);
  const std::string_view whole = text.substr(at, c.length);
  at += c.length;
  if (!has_case(c.value)) return LetterCase::none;
  return lower_case(whole) == whole ? LetterCase::lower : LetterCase::upper;
}

struct CaseCounts {
  std::int64_t lower = 0, upper = 0;
};
CaseCounts cases_of(std::string_view text) {
  CaseCounts counts;
  for (std::size_t at = 0; at < text.size();) {
    const LetterCase one = next_case(text, at);
    counts.lower += one == LetterCase::lower, counts.upper += one == LetterCase::upper;
  }
  return counts;
}

std::vector<std::string> words_between_blanks(std::string_view text) {
  std::vector<std::string> words(1);
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint c = read_utf8(text, at);
    if (!is_python_space(c.value))
      words.back() += text.substr(at, c.length);
    else if (!words.back().empty())
      words.emplace_back();
    at += c.length;
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

void strip_any(std::string& word, const std::vector<std::string>& marks, bool at_end) {
  for (bool again = true; again;) {
    again = false;
    for (const std::string& mark : marks) {
      if (at_end ? !ends_with(word, mark) : !starts_with(word, mark)) continue;
      word = at_end ? word.substr(0, word.size() - mark.size()) : word.substr(mark.size());
      again = true;
    }
  }
}

bool is_abbreviation(const std::string& word) {
  static const std::vector<std::string> known = {
      "mr",   "mrs",  "ms",  "dr",  "prof", "st",   "sr",  "jr",  "rev", "gen", "col", "capt",  "lt",  "sgt",
      "gov",  "sen",  "rep", "hon", "pres", "vs",   "etc", "e.g", "i.e", "cf",  "al",  "inc",   "ltd", "co",
      "corp", "dept", "est", "fig", "no",   "vol",  "pp",  "p.m", "a.m", "u.s", "u.k", "u.n",   "d.c", "ph.d",
      "jan",  "feb",  "mar", "apr", "aug",  "sept", "oct", "nov", "dec", "mt",  "ft",  "approx"};
  return std::ranges::find(known, lower_case(word)) != known.end();
}

bool is_number(const std::string& word) {
  return !word.empty() && word.find_first_not_of("0123456789.,") == std::string::npos &&
         word.find_first_of("0123456789") != std::string::npos;
}

bool begins_with_capital(std::string word) {
  strip_any(word, {"\"", "'", "(", "[", "“", "‘", "*", "_"}, false);
  std::size_t at = 0;
  return !word.empty() && next_case(word, at) != LetterCase::lower;
}

bool ends_sentence(std::string word, const std::string& next) {
  strip_any(word, {"\"", "'", ")", "]", "}", "”", "’", "*", "_"}, true);
  if (word.empty()) return false;
  if (word.back() == '?' || word.back() == '!') return true;
  if (ends_with(word, "..") || ends_with(word, "…")) return begins_with_capital(next);
  if (word.back() != '.') return false;
  word.pop_back();
  strip_any(word, {"\"", "'", "(", "[", "“", "‘", "*", "_"}, false);
  const bool is_initial = word.size() == 1 && (word[0] | 0x20) >= 'a' && (word[0] | 0x20) <= 'z';
  if (is_initial || is_abbreviation(word)) return false;
  return !is_number(word) || begins_with_capital(next);
}

}  // namespace

std::int64_t count_sentences(std::string_view text) {
  const std::vector<std::string> words = words_between_blanks(text);
  std::int64_t count = 0;
  for (std::size_t i = 0; i < words.size(); ++i)
    if (i + 1 == words.size() || ends_sentence(words[i], words[i + 1])) ++count;
  return count;
}

std::int64_t count_capital_words(std::string_view text) {
  static const std::vector<std::string> endings = {"N'T", "'S", "'M", "'D", "'LL", "'RE", "'VE"};
  std::int64_t count = 0;
  for (const std::string& part : words_between_blanks(text)) {
    std::string spaced = part;
    for (char& c : spaced)
      if (std::string_view("\"?!;@#$%&()[]{}<>,:`*").find(c) != std::string_view::npos) c = ' ';
    for (std::size_t at = spaced.find("--"); at != std::string::npos; at = spaced.find("--"))
      spaced.replace(at, 2, "  ");
    for (std::string word : words_between_blanks(spaced)) {
      if (is_upper_text(word))
        for (const std::string& ending : endings)
          if (word.size() > ending.size() && ends_with(word, ending)) {
            word.resize(word.size() - ending.size());
            ++count;
            break;
          }
      count += is_upper_text(word) ? 1 : 0;
    }
  }
  return count;
}

bool is_upper_text(std::string_view text) {
  const CaseCounts counts = cases_of(text);
  return counts.upper > 0 && counts.lower == 0;
}

bool is_lower_text(std::string_view text) {
  const CaseCounts counts = cases_of(text);
  return counts.lower > 0 && counts.upper == 0;
}

}  // namespace longhaul
