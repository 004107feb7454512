#include "engine/curate/rules/measured_document.h"

#include <algorithm>

#include "base/text/text.h"
#include "engine/curate/extract/unicode.h"

namespace longhaul {

std::vector<std::string_view> parts_between(std::string_view text, std::string_view separator) {
  std::vector<std::string_view> result;
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t end = std::min(text.find(separator, start), text.size());
    const std::string_view piece = text.substr(start, end - start);
    if (piece.find_first_not_of(" \t\n") != std::string_view::npos) result.push_back(piece);
    start = end + separator.size();
  }
  return result;
}

double ratio_of(double part, double whole) {
  return whole > 0 ? part / whole : 0;
}

MeasuredDocument measure_document(std::string_view text, std::string_view language,
                                  std::vector<std::string>* left_out) {
  MeasuredDocument m;
  m.text = text;
  m.language = language;
  m.left_out = left_out;
  m.bytes = static_cast<double>(text.size());
  m.words = split_words(text);
  m.lines = parts_between(text, "\n");
  m.paragraphs = parts_between(text, "\n\n");
  double letters = 0, half = 0, dictionary = 0, unmarked = 0, figures = 0;
  for (const Word& word : m.words) {
    m.word_count += word.weight();
    letters += word.letters;
    figures += !word.alphabetic;
    if (!word.unspaced) continue;
    (word.half ? half : dictionary) += word.letters;
    const auto lead = static_cast<unsigned char>(text[word.begin + 1]);  // E0 B8 .. E0 BB: U+0E00 to U+0EFF
    if (!word.half && static_cast<unsigned char>(text[word.begin]) == 0xE0 && lead >= 0xB8 && lead <= 0xBB)
      unmarked += word.letters;
  }
  m.half_share = ratio_of(half, letters);
  m.dictionary_share = ratio_of(dictionary, letters);
  m.unmarked_share = ratio_of(unmarked, letters);
  m.figures = ratio_of(figures, static_cast<double>(m.words.size()));
  return m;
}

std::optional<RuleVerdict> at_least(std::string rule, double value, double limit) {
  if (value >= limit) return std::nullopt;
  return RuleVerdict{std::move(rule), format("{:.4g}; at least {:.4g} wanted", value, limit)};
}

std::optional<RuleVerdict> at_most(std::string rule, double value, double limit) {
  if (value <= limit) return std::nullopt;
  return RuleVerdict{std::move(rule), format("{:.4g}; at most {:.4g} allowed", value, limit)};
}

double occurrences_of(std::string_view text, std::string_view what) {
  double count = 0;
  for (std::size_t at = text.find(what); at != std::string_view::npos; at = text.find(what, at + what.size())) ++count;
  return count;
}

bool ends_like_sentence(std::string_view line) {
  char32_t last = 0;
  for (std::size_t pos = line.size() > 24 ? line.size() - 24 : 0; pos < line.size();) {
    const char32_t c = next_code_point(line, pos);
    if (is_word_char(c) || is_sentence_end(c) || c == ':' || c == 0xFF1A) last = c;
  }
  return is_sentence_end(last) || last == ':' || last == 0xFF1A;
}

std::string ascii_lowered(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  }
  return lower;
}

}  // namespace longhaul
