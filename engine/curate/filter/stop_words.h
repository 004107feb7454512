// The commonest words of languages: text of a language that holds none of them is a list, a menu or something else.
#pragma once

#include <string_view>
#include <unordered_set>

namespace longhaul {

// Lower case; for English those of Gopher (arXiv 2112.11446, A.1). Null for languages without a list here, which are
// also those whose words stand without blanks. `language`: as CLD2 names it ("en", "pt", "zh-Hant").
const std::unordered_set<std::string_view>* stop_words_of(std::string_view language);

}  // namespace longhaul
