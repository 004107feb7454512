#include "orchestrator/render/draw/text_table.h"

#include <algorithm>

#include "base/text/visible_text.h"

namespace longhaul {
namespace {

bool is_continuation(char c) {
  return (static_cast<unsigned char>(c) & 0xC0) == 0x80;
}

}  // namespace

std::size_t code_points(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return !is_continuation(c); }));
}

std::string text_table(const std::vector<std::vector<std::string>>& cells) {
  std::vector<std::vector<std::string>> rows = cells;
  for (auto& row : rows)
    for (std::string& cell : row) cell = visible_line(cell);
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()), 0);
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], code_points(row[i]));
  }
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += row[i];
      if (i + 1 < row.size()) line.append(widths[i] - code_points(row[i]) + 2, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

std::string clipped(const std::string& text, std::size_t columns) {
  if (code_points(text) <= columns) return text;
  std::size_t end = 0, seen = 0;
  while (end < text.size() && seen + 1 < columns) {
    ++end;
    while (end < text.size() && is_continuation(text[end])) ++end;
    ++seen;
  }
  return text.substr(0, end) + "…";
}

}  // namespace longhaul
