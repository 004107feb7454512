#include <unordered_set>

#include "engine/curate/rules/document_filters.h"

namespace longhaul {
namespace {

struct Repeats {
  double share = 0, byte_share = 0;
};
Repeats repeats(const std::vector<std::string_view>& parts, double bytes) {
  std::unordered_set<std::string_view> seen;
  double count = 0, repeated = 0;
  for (const std::string_view part : parts) {
    if (seen.insert(part).second) continue;
    ++count;
    repeated += static_cast<double>(part.size());
  }
  return {ratio_of(count, static_cast<double>(parts.size())), ratio_of(repeated, bytes)};
}

}  // namespace

// Lines and paragraphs that stand there again.
std::optional<RuleVerdict> repetition_filter(const MeasuredDocument& m, const DocumentRuleSettings& s) {
  const Repeats lines = repeats(m.lines, m.bytes), paragraphs = repeats(m.paragraphs, m.bytes);
  if (auto v = at_most("duplicate_lines_max", lines.share, s.duplicate_lines_max)) return v;
  if (auto v = at_most("duplicate_paragraphs_max", paragraphs.share, s.duplicate_paragraphs_max)) return v;
  if (auto v = at_most("duplicate_line_letters_max", lines.byte_share, s.duplicate_line_letters_max)) return v;
  return at_most("duplicate_paragraph_letters_max", paragraphs.byte_share, s.duplicate_paragraph_letters_max);
}

}  // namespace longhaul
