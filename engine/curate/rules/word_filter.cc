#include "engine/curate/rules/document_filters.h"

namespace longhaul {

// How many words there are and what they are made of.
std::optional<RuleVerdict> word_filter(const MeasuredDocument& m, const DocumentRuleSettings& s) {
  if (auto v = at_least("words_min", m.word_count, s.words_min)) return v;
  if (auto v = at_most("words_max", m.word_count, s.words_max)) return v;
  double letters = 0, alphabetic = 0;
  for (const Word& word : m.words) {
    letters += word.letters;
    alphabetic += word.alphabetic;
  }
  const auto count = static_cast<double>(m.words.size());
  if (m.half_share < 0.3) {
    if (auto v = at_least("mean_word_length_min", ratio_of(letters, count), s.mean_word_length_min)) return v;
    if (auto v = at_most("mean_word_length_max", ratio_of(letters, count), s.mean_word_length_max)) return v;
  }
  if (auto v = at_least("alphabetic_words_min", ratio_of(alphabetic, count), s.alphabetic_words_min)) return v;
  if (auto v =
          at_most("hashes_per_word_max", ratio_of(occurrences_of(m.text, "#"), m.word_count), s.hashes_per_word_max))
    return v;
  const double ellipses = occurrences_of(m.text, "...") + occurrences_of(m.text, "\xE2\x80\xA6");
  return at_most("ellipses_per_word_max", ratio_of(ellipses, m.word_count), s.ellipses_per_word_max);
}

}  // namespace longhaul
