// The rules on repeated n-grams in languages that write no blanks: how documents of people, and the same ones with a
// sentence repeated to a third of their length, stand to the limits, where n-grams are counted in pairs of letters (as
// document_rules.cc does) and where they are counted in words that ICU's dictionary finds.
//
//     find corpus -name '*.html' | grep -E 'ja-JP|/ja/' | build/release/bin/ngram_scripts
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <vector>

#include "base/files/files.h"
#include "engine/curate/extract/clean_text.h"
#include "engine/curate/extract/unicode.h"
#include "engine/curate/html/html_text.h"
#include "engine/curate/rules/document_rules.h"

namespace longhaul {
namespace {

constexpr std::size_t rules = 9;  // top 2-, 3-, 4-grams, repeated 5- to 10-grams

DocumentRuleSettings no_rules() {
  DocumentRuleSettings s;
  s.words_min = s.mean_word_length_min = s.alphabetic_words_min = s.sentence_end_lines_min = 0;
  s.words_max = s.mean_word_length_max = s.hashes_per_word_max = s.ellipses_per_word_max = s.newlines_per_word_max =
      1e18;
  s.bullet_lines_max = s.ellipsis_lines_max = s.ngram_figures_max = 1;
  s.duplicate_lines_max = s.duplicate_paragraphs_max = 1;
  s.duplicate_line_letters_max = s.duplicate_paragraph_letters_max = 1;
  s.stop_words_min = 0;
  s.lorem_ipsum = false;
  s.top_ngrams_max.assign(3, 1);
  s.duplicate_ngrams_max.assign(6, 1);
  return s;
}

double& limit_of(DocumentRuleSettings& s, std::size_t rule) {
  return rule < 3 ? s.top_ngrams_max[rule] : s.duplicate_ngrams_max[rule - 3];
}

// The share that a rule looks at: with a limit below zero its verdict names it.
double share_of(const std::string& text, std::size_t rule) {
  DocumentRuleSettings s = no_rules();
  limit_of(s, rule) = -1;
  const auto verdict = broken_document_rule(text, "und", s, nullptr);
  return verdict ? std::strtod(verdict->detail.c_str(), nullptr) : 0;
}

bool is_half_word(char32_t c) {
  return is_unspaced_script(c) && !is_dictionary_script(c);
}

// Blanks between the words that ICU finds, and three Latin letters for each of Han and kana, which takes as many bytes:
// what document_rules.cc then counts are words.
std::string in_words(const std::string& text) {
  std::string out;
  std::uint32_t at = 0;
  for (const std::uint32_t end : word_ends(text)) {
    const std::string_view word = std::string_view(text).substr(at, end - at);
    at = end;
    bool spaced = true;
    std::string letters;
    for (std::size_t pos = 0; pos < word.size();) {
      const char32_t c = next_code_point(word, pos);
      if (!is_half_word(c)) {
        append_utf8(letters, c);
        continue;
      }
      spaced = false;
      for (std::uint32_t rest = c, i = 0; i < 3; ++i, rest /= 52)
        letters += static_cast<char>(rest % 52 < 26 ? 'a' + rest % 52 : 'A' + rest % 52 - 26);
    }
    out += spaced ? letters : " " + letters + " ";
  }
  return out;
}

std::size_t next_start(const std::string& text, std::size_t at) {
  while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) ++at;
  return at;
}

std::string with_repetition(std::string text) {
  const std::size_t begin = next_start(text, text.size() / 3), end = next_start(text, begin + 90);
  const std::string sentence = text.substr(begin, end - begin) + ". ";
  const std::size_t wanted = text.size() + text.size() / 2;
  while (text.size() < wanted) text += sentence;
  return text;
}

void print_shares(const char* name, const std::vector<std::string>& texts) {
  DocumentRuleSettings limits;
  std::vector<std::vector<double>> shares(rules);
  int over = 0;
  for (const std::string& text : texts) {
    bool broken = false;
    for (std::size_t rule = 0; rule < rules; ++rule) {
      shares[rule].push_back(share_of(text, rule));
      broken = broken || shares[rule].back() > limit_of(limits, rule);
    }
    over += broken;
  }
  std::printf("%-24s %4zu documents, over a limit %5.3f; 95th percentile:", name, texts.size(),
              over / static_cast<double>(texts.size()));
  for (std::size_t rule = 0; rule < rules; ++rule) {
    auto& values = shares[rule];
    std::sort(values.begin(), values.end());
    std::printf(" %zu: %.3f", rule + 2, values[values.size() * 95 / 100]);
  }
  std::puts("");
}

}  // namespace
}  // namespace longhaul

int main() {
  using namespace longhaul;
  std::vector<std::string> plain, words, repeated, repeated_words;
  for (std::string path; std::getline(std::cin, path);) {
    const auto bytes = read_file(path);
    if (!bytes.ok()) continue;
    const std::string text = clean_text(extract_main_text(*bytes).text);
    const auto high =
        std::count_if(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) > 0xE2; });
    if (text.size() < 1500 || 6 * static_cast<std::size_t>(high) < text.size()) continue;  // short, or left in English
    plain.push_back(text);
    words.push_back(in_words(text));
    repeated.push_back(with_repetition(text));
    repeated_words.push_back(in_words(repeated.back()));
  }
  if (plain.empty()) {
    std::puts("no pages: name their paths on the standard input");
    return 1;
  }
  print_shares("pairs of letters", plain);
  print_shares("words of ICU", words);
  print_shares("pairs, repeated", repeated);
  print_shares("words, repeated", repeated_words);
  return 0;
}
