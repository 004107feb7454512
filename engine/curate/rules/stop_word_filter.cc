#include <unordered_set>

#include "engine/curate/extract/clean_text.h"
#include "engine/curate/filter/stop_words.h"
#include "engine/curate/rules/document_filters.h"

namespace longhaul {

// Text holds the most common words of its language.
std::optional<RuleVerdict> stop_word_filter(const MeasuredDocument& m, const DocumentRuleSettings& s) {
  if (s.stop_words_min <= 0) return std::nullopt;
  const auto* stop_words = stop_words_of(m.language);
  if (!stop_words) {
    m.leave_out("stop_words_min");
    return std::nullopt;
  }
  std::unordered_set<std::string> seen;
  for (const Word& word : m.words) {
    if (word.end - word.begin > 12) continue;
    std::string lower = comparison_key(m.text.substr(word.begin, word.end - word.begin));
    if (stop_words->contains(lower)) seen.insert(std::move(lower));
    if (static_cast<int>(seen.size()) >= s.stop_words_min) return std::nullopt;
  }
  return at_least("stop_words_min", static_cast<double>(seen.size()), s.stop_words_min);
}

}  // namespace longhaul
