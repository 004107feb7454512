// What filters ask of a document, gathered once, and the small arithmetic that they share.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/curate/filter/words.h"
#include "engine/curate/rules/document_rules.h"

namespace longhaul {

// What the rules ask of a document, gathered once.
struct MeasuredDocument {
  std::string_view text;
  std::string_view language;  // a code of language.h
  std::vector<Word> words;
  std::vector<std::string_view> lines, paragraphs;  // non-empty
  double word_count = 0;                            // letters of Han and kana count half
  double half_share = 0;                            // Han and kana, of the letters
  double dictionary_share = 0;                      // Thai, Lao, Khmer, Burmese, of the letters
  double unmarked_share = 0;                        // Thai and Lao, which do not mark the end of a sentence
  double figures = 0;                               // words that are numbers, of all words
  double bytes = 0;
  std::vector<std::string>* left_out = nullptr;  // rules that cannot be asked of this text
  void leave_out(const char* rule) const {
    if (left_out) left_out->emplace_back(rule);
  }
};

// Views into `text`, which has to outlive what is returned. `left_out` may be null.
MeasuredDocument measure_document(std::string_view text, std::string_view language, std::vector<std::string>* left_out);

// The parts of `text` between `separator`s that are more than blanks.
std::vector<std::string_view> parts_between(std::string_view text, std::string_view separator);
// How often `what` stands in `text`, without overlaps.
double occurrences_of(std::string_view text, std::string_view what);
std::string ascii_lowered(std::string_view text);
// part / whole; 0 of nothing.
double ratio_of(double part, double whole);
// The last letter or mark of a line, closing quotes and brackets skipped, ends a sentence. A colon announces what
// follows.
bool ends_like_sentence(std::string_view line);

// The verdict of a limit that is broken, with both numbers; nothing where it is kept.
std::optional<RuleVerdict> at_least(std::string rule, double value, double limit);
std::optional<RuleVerdict> at_most(std::string rule, double value, double limit);

}  // namespace longhaul
