#include <algorithm>

#include "engine/curate/filter/words.h"
#include "engine/curate/rules/document_filters.h"

namespace longhaul {
namespace {

constexpr std::ptrdiff_t short_line = 30;  // letters and other characters; FineWeb's figure

std::ptrdiff_t characters_in(std::string_view line) {
  return std::ranges::count_if(line, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

}  // namespace

// FineWeb's datatrove, "short_line_ratio": pages whose lines are mostly short are menus and lists of links. Lists of
// terms and poems are too, so that it is asked only where a limit is set.
std::optional<RuleVerdict> line_length_filter(const MeasuredDocument& m, const DocumentRuleSettings& s) {
  if (s.short_lines_max >= 1) return std::nullopt;
  const auto count =
      std::ranges::count_if(m.lines, [](std::string_view line) { return characters_in(line) <= short_line; });
  const auto lines = static_cast<double>(m.lines.size());
  return at_most("short_lines_max", ratio_of(static_cast<double>(count), lines), s.short_lines_max);
}

}  // namespace longhaul
