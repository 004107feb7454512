#include <algorithm>

#include "engine/curate/rules/measured_document.h"

namespace longhaul {
namespace {

// A site talking about itself, not about its subject: short, and asking for JavaScript or consent.
bool is_notice(std::string_view line) {
  if (line.size() > 300) return false;
  const std::string lower = ascii_lowered(line);
  const auto has = [&](const char* part) { return lower.find(part) != std::string::npos; };
  if (has("javascript") && (has("enable") || has("disabled") || has("turn on") || has("requires javascript")))
    return true;
  return has("privacy policy") || has("cookie policy") || has("uses cookies") || has("use of cookies") ||
         has("use cookies") || has("terms of use") || has("terms of service");
}

const char* broken_line_rule(std::string_view line, const LineRuleSettings& s) {
  if (s.notices && is_notice(line)) return "notices";
  const bool words_needed = s.words_min > 0 || static_cast<double>(line.size()) > s.word_length_max;
  if (words_needed) {
    double count = 0;
    std::size_t blankless = 0;
    for (const std::string_view piece : parts_between(line, " ")) blankless = std::max(blankless, piece.size());
    bool unspaced = false;
    for (const Word& word : split_words(line)) {
      count += word.weight();
      unspaced = unspaced || word.unspaced;
    }
    if (!unspaced && static_cast<double>(blankless) > s.word_length_max) return "word_length_max";
    if (count < s.words_min) return "line_words_min";
  }
  return s.sentence_end && !ends_like_sentence(line) ? "sentence_end" : nullptr;
}

}  // namespace

std::string apply_line_rules(std::string_view text, const LineRuleSettings& settings,
                             std::vector<RemovedLines>& removed) {
  std::string out;
  bool empty_before = false;
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    const std::string_view line = text.substr(start, end - start);
    start = end + 1;
    if (line.empty()) {
      empty_before = true;
      continue;
    }
    if (const char* rule = broken_line_rule(line, settings)) {
      auto entry = std::find_if(removed.begin(), removed.end(), [&](const RemovedLines& r) { return r.rule == rule; });
      if (entry == removed.end()) entry = removed.insert(removed.end(), RemovedLines{rule, 0, 0});
      ++entry->lines;
      entry->bytes += static_cast<std::int64_t>(line.size()) + 1;
      continue;
    }
    if (!out.empty()) out += empty_before ? "\n\n" : "\n";
    empty_before = false;
    out += line;
  }
  return out;
}

}  // namespace longhaul
