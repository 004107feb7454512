#include <algorithm>

#include "base/text/text.h"
#include "engine/curate/rules/document_filters.h"

namespace longhaul {
namespace {

template <class Predicate>
double line_share(const MeasuredDocument& m, Predicate predicate) {
  const auto hits = std::count_if(m.lines.begin(), m.lines.end(), predicate);
  return ratio_of(static_cast<double>(hits), static_cast<double>(m.lines.size()));
}

bool is_bullet_line(std::string_view line) {
  const std::size_t at = line.find_first_not_of(" \t");
  const std::string_view rest = line.substr(at);
  return starts_with(rest, "- ") || starts_with(rest, "* ") || starts_with(rest, "\xE2\x80\xA2");
}

bool ends_in_ellipsis(std::string_view line) {
  const std::string text = trim(line);
  return ends_with(text, "...") || ends_with(text, "\xE2\x80\xA6");
}

}  // namespace

// How lines begin and end.
std::optional<RuleVerdict> line_shape_filter(const MeasuredDocument& m, const DocumentRuleSettings& s) {
  if (auto v = at_most("bullet_lines_max", line_share(m, is_bullet_line), s.bullet_lines_max)) return v;
  if (auto v = at_most("ellipsis_lines_max", line_share(m, ends_in_ellipsis), s.ellipsis_lines_max)) return v;
  if (m.unmarked_share >= 0.3) {
    if (s.sentence_end_lines_min > 0) m.leave_out("sentence_end_lines_min");
  } else if (auto v = at_least("sentence_end_lines_min", line_share(m, ends_like_sentence), s.sentence_end_lines_min)) {
    return v;
  }
  const double newlines = occurrences_of(m.text, "\n");
  return at_most("newlines_per_word_max", ratio_of(newlines, m.word_count), s.newlines_per_word_max);
}

}  // namespace longhaul
