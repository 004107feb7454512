// Room engine/curate/filter
// What a text is: its language, its words, the page it is of, and what the pages of its site have in common.
// language.h wraps CLD2, words.h splits text, page_identity.h gives one name to a page in all its languages.
// sites.h finds what stands on most pages of a folder.
// It judges nothing (engine/curate/rules does) and knows no duplicates (engine/curate/dedup).
//
// Which language a text is written in, by CLD2 (naive Bayes over letter groups, about 160 languages).
#pragma once

#include <string>
#include <string_view>

namespace longhaul {

struct LanguageGuess {
  std::string code = "und";  // ISO 639-1, or longer where there is none ("en", "zh", "zh-Hant"); "und": not known
  double score = 0;          // 0 to 1: the share of the text in that language
  bool reliable = false;     // CLD2's own verdict; short texts rarely are
};

// `text` may be any bytes: what is not valid UTF-8 is repaired first, since CLD2 stops there. Thread-safe.
LanguageGuess detect_language(std::string_view text);

}  // namespace longhaul
