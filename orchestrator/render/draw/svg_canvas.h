// A drawing as SVG: shapes are added in the order in which they cover each other; picture() puts the frame of a drawing
// inside a page around them, file() that of a file. Every text is escaped here and invalid UTF-8 replaced, so that no
// name of a run becomes markup. Colours and line widths are classes of the page's style sheet.
#pragma once

#include <string>
#include <string_view>

namespace longhaul {

// A length or a place in pixels. Integers are written as they are, all else to a tenth of a pixel.
class Pixel {
 public:
  Pixel(int whole) : value_(whole), whole_(true) {}  // NOLINT(google-explicit-constructor): both read as numbers
  Pixel(double value) : value_(value) {}             // NOLINT(google-explicit-constructor)
  std::string text() const;

 private:
  double value_;
  bool whole_ = false;
};

class SvgCanvas {
 public:
  // `classes`: of the style sheet, "" for none. `tooltip`: what a pointer over the shape shows, "" for nothing.
  void line(std::string_view classes, Pixel x1, Pixel y1, Pixel x2, Pixel y2);
  void rect(std::string_view classes, Pixel x, Pixel y, Pixel width, Pixel height, std::string_view tooltip = {});
  void rounded_rect(Pixel x, Pixel y, Pixel width, Pixel height, int corner);
  void circle(std::string_view classes, Pixel x, Pixel y, int radius, std::string_view tooltip = {});
  // `data`: commands of an SVG path, made of numbers only. `points`: "x,y x,y".
  void path(std::string_view classes, std::string_view data, std::string_view tooltip = {});
  void polyline(std::string_view classes, std::string_view points);
  void text(std::string_view classes, Pixel x, Pixel y, std::string_view text, std::string_view tooltip = {});
  void text_upwards(std::string_view classes, Pixel x, Pixel y, std::string_view text);  // turned by a quarter
  void open_group(std::string_view classes, std::string_view tooltip);
  void close_group();
  void append(const SvgCanvas& above);  // its shapes come to lie above those that are here

  struct Frame {
    std::string_view classes;
    int width = 0, height = 0;
    std::string_view label;  // what a screen reader says
    // How large it is shown: as its classes say, its own width, or its own width and height.
    enum class Size { of_classes, own_width, own } size = Size::of_classes;
  };
  std::string picture(const Frame& frame) const;
  // The same as a file of its own, with one shape a line, on white. `style`: a style sheet for the classes; it is
  // written as it is.
  std::string file(const Frame& frame, std::string_view style) const;

 private:
  std::string shapes_;
};

}  // namespace longhaul
