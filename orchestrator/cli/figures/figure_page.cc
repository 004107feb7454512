#include "orchestrator/cli/figures/figure_page.h"

#include <cmath>

#include "base/text/text.h"

namespace longhaul {
namespace {

constexpr const char* style =
    "text{font:13px system-ui,sans-serif;fill:#1d2530}"
    ".title{font-size:15px;font-weight:600}.name{font-weight:600}"
    ".small{font-size:11px;fill:#4b5563}.mono{font:11px ui-monospace,monospace}"
    ".middle{text-anchor:middle}.end{text-anchor:end}"
    "rect.panel{fill:#f6f8fa;stroke:#c3cad3}rect.box{fill:#fff;stroke:#66707e}rect.marked{stroke:#1d2530;stroke-width:"
    "3}"
    "rect.c0{fill:#dbe9f9}rect.c1{fill:#d5efdd}rect.c2{fill:#fdebc8}rect.c3{fill:#f9d5d0}rect.c4{fill:#e6dcf5}"
    "rect.c5{fill:#cfe8ec}rect.c6{fill:#dfe3e8}"
    "line{stroke:#66707e;stroke-width:1.4}line.rule{stroke:#d9dee5}line.dashed{stroke-dasharray:5 4}"
    "path.head{fill:#66707e}";

bool has_class(std::string_view classes, std::string_view name) {
  for (const std::string& one : split(classes, ' '))
    if (one == name) return true;
  return false;
}

std::size_t characters_of(std::string_view text) {
  std::size_t count = 0;
  for (const char byte : text) count += (static_cast<unsigned char>(byte) & 0xc0) != 0x80;
  return count;
}

}  // namespace

double text_width(std::string_view classes, std::string_view text) {
  const auto count = static_cast<double>(characters_of(text));
  if (has_class(classes, "mono")) return count * 11 * 0.61;
  const double size = has_class(classes, "title") ? 15 : has_class(classes, "small") ? 11 : 13;
  return count * size * (has_class(classes, "title") || has_class(classes, "name") ? 0.62 : 0.57);
}

std::vector<std::string> broken_text(std::string_view classes, int width, std::string_view text) {
  std::vector<std::string> lines;
  for (const std::string& word : split(text, ' ')) {
    if (word.empty()) continue;
    const std::string longer = lines.empty() ? word : lines.back() + " " + word;
    if (!lines.empty() && text_width(classes, longer) <= width)
      lines.back() = longer;
    else
      lines.push_back(word);
  }
  return lines;
}

int FigurePage::paragraph(std::string_view classes, int x, int y, int width, std::string_view text) {
  for (const std::string& one : broken_text(classes, width, text)) {
    svg_.text(classes, x, y, one);
    y += line_height;
  }
  return y;
}

void FigurePage::arrow(std::string_view classes, int x1, int y1, int x2, int y2) {
  constexpr double length = 9, half = 3.5;
  const double dx = x2 - x1, dy = y2 - y1, far = std::hypot(dx, dy);
  const double ux = dx / far, uy = dy / far;  // along the arrow; (-uy, ux) across it
  const double base_x = x2 - length * ux, base_y = y2 - length * uy;
  svg_.line(classes, x1, y1, base_x, base_y);
  svg_.path("head", format("M{} {} L{:.1f} {:.1f} L{:.1f} {:.1f} Z", x2, y2, base_x - half * uy, base_y + half * ux,
                           base_x + half * uy, base_y - half * ux));
}

std::string FigurePage::file(int height) const {
  return svg_.file({.classes = "", .width = width_, .height = height, .label = label_}, style);
}

}  // namespace longhaul
