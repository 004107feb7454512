// What the figures of the docs are drawn with: texts that are broken at words, boxes with texts in them, arrows. Sizes
// of texts are estimated, generously, for a browser takes the fonts that its machine has.
//
// Classes of texts: "name" (bold), "small", "mono" (names of files and settings), "title"; with "middle" or "end" for
// where they are anchored. Of boxes: "panel", "box", and "c0" to "c6" for colours.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/render/draw/svg_canvas.h"

namespace longhaul {

// Of the figures that fill a page.
inline constexpr int figure_width = 1000, figure_left = 16, figure_right = figure_width - figure_left;

class FigurePage {
 public:
  static constexpr int line_height = 16;  // of a text of any class but "title"

  // `label`: what a screen reader says.
  FigurePage(int width, std::string label) : width_(width), label_(std::move(label)) {}

  void box(std::string_view classes, int x, int y, int width, int height) { svg_.rect(classes, x, y, width, height); }
  void text(std::string_view classes, int x, int y, std::string_view text) { svg_.text(classes, x, y, text); }
  // Broken into lines of at most `width`; the first stands at y. Returns the y of a line that would follow.
  int paragraph(std::string_view classes, int x, int y, int width, std::string_view text);
  // From one place to another, with a head; `classes`: "" or "dashed".
  void arrow(std::string_view classes, int x1, int y1, int x2, int y2);
  void line(std::string_view classes, int x1, int y1, int x2, int y2) { svg_.line(classes, x1, y1, x2, y2); }

  std::string file(int height) const;

 private:
  SvgCanvas svg_;
  int width_;
  std::string label_;
};

// The estimated width of a text of these classes, in pixels.
double text_width(std::string_view classes, std::string_view text);
// Words that fit a width, line by line; a longer word has a line of its own.
std::vector<std::string> broken_text(std::string_view classes, int width, std::string_view text);

}  // namespace longhaul
