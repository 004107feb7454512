// What instructions count in an answer: sentences, words in capitals, the case of a whole text. Texts are valid UTF-8.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace longhaul {

// Sentences of an English text. One ends at a word's "?", "!" or ".", with closing quotes and brackets behind it, but
// for the period of an initial, of an abbreviation of a list, and of a number or an ellipsis before a small letter. It
// stands in for the trained splitter that IFEval takes (Punkt: Kiss and Strunk 2006, Computational Linguistics 32),
// which has learnt its abbreviations from a corpus; where both differ, they do by a sentence.
std::int64_t count_sentences(std::string_view text);

// Words as the Penn Treebank separates them (marks stand alone, "isn't" is two, "well-known" is one) whose letters are
// all capitals.
std::int64_t count_capital_words(std::string_view text);

// str.isupper, str.islower: there is a letter with a case, and none of the other. Letters beyond Latin, Greek and
// Cyrillic count as without a case.
bool is_upper_text(std::string_view text);
bool is_lower_text(std::string_view text);

}  // namespace longhaul
