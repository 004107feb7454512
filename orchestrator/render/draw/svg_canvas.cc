#include "orchestrator/render/draw/svg_canvas.h"

#include "base/text/text.h"
#include "orchestrator/render/draw/html_table.h"

namespace longhaul {
namespace {

std::string class_of(std::string_view classes) {
  return classes.empty() ? std::string() : format(" class=\"{}\"", html_text(classes));
}

// How an element ends: by itself, or around its tooltip.
std::string end_of(std::string_view tag, std::string_view tooltip) {
  return tooltip.empty() ? "/>" : format("><title>{}</title></{}>", html_text(tooltip), tag);
}

// Each element on a line of its own: what changes in a drawing is then what a comparison of two files shows. Texts hold
// no '<' any more, and a tooltip stays with its shape.
std::string one_shape_a_line(std::string_view shapes) {
  std::string lines;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const std::string_view rest = shapes.substr(i);
    if (rest.starts_with('<') && !rest.starts_with("<title")) {
      const bool closes_group = rest.starts_with("</g>");
      if (closes_group || !rest.starts_with("</")) lines += '\n';
    }
    lines += shapes[i];
  }
  return lines;
}

}  // namespace

std::string Pixel::text() const {
  return whole_ ? format("{}", static_cast<int>(value_)) : format("{:.1f}", value_);
}

void SvgCanvas::line(std::string_view classes, Pixel x1, Pixel y1, Pixel x2, Pixel y2) {
  shapes_ += format("<line{} x1=\"{}\" x2=\"{}\" y1=\"{}\" y2=\"{}\"/>", class_of(classes), x1.text(), x2.text(),
                    y1.text(), y2.text());
}

void SvgCanvas::rect(std::string_view classes, Pixel x, Pixel y, Pixel width, Pixel height, std::string_view tooltip) {
  shapes_ += format("<rect{} x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"{}", class_of(classes), x.text(), y.text(),
                    width.text(), height.text(), end_of("rect", tooltip));
}

void SvgCanvas::rounded_rect(Pixel x, Pixel y, Pixel width, Pixel height, int corner) {
  shapes_ += format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"{}\"/>", x.text(), y.text(), width.text(),
                    height.text(), corner);
}

void SvgCanvas::circle(std::string_view classes, Pixel x, Pixel y, int radius, std::string_view tooltip) {
  shapes_ += format("<circle{} cx=\"{}\" cy=\"{}\" r=\"{}\"{}", class_of(classes), x.text(), y.text(), radius,
                    end_of("circle", tooltip));
}

void SvgCanvas::path(std::string_view classes, std::string_view data, std::string_view tooltip) {
  shapes_ += format("<path{} d=\"{}\"{}", class_of(classes), data, end_of("path", tooltip));
}

void SvgCanvas::polyline(std::string_view classes, std::string_view points) {
  shapes_ += format("<polyline{} points=\"{}\"/>", class_of(classes), points);
}

void SvgCanvas::text(std::string_view classes, Pixel x, Pixel y, std::string_view text, std::string_view tooltip) {
  shapes_ += format("<text{} x=\"{}\" y=\"{}\">{}", class_of(classes), x.text(), y.text(), html_text(text));
  if (!tooltip.empty()) shapes_ += format("<title>{}</title>", html_text(tooltip));
  shapes_ += "</text>";
}

void SvgCanvas::text_upwards(std::string_view classes, Pixel x, Pixel y, std::string_view text) {
  shapes_ += format("<text{} transform=\"translate({} {}) rotate(-90)\">{}</text>", class_of(classes), x.text(),
                    y.text(), html_text(text));
}

void SvgCanvas::open_group(std::string_view classes, std::string_view tooltip) {
  shapes_ += format("<g{}><title>{}</title>", class_of(classes), html_text(tooltip));
}

void SvgCanvas::close_group() {
  shapes_ += "</g>";
}

void SvgCanvas::append(const SvgCanvas& above) {
  shapes_ += above.shapes_;
}

std::string SvgCanvas::picture(const Frame& frame) const {
  std::string size = format(" viewBox=\"0 0 {} {}\"", frame.width, frame.height);
  if (frame.size == Frame::Size::own_width) size = format(" style=\"width:{}px\"", frame.width) + size;
  if (frame.size == Frame::Size::own) size += format(" width=\"{}\" height=\"{}\"", frame.width, frame.height);
  return format("<svg{}{} role=\"img\" aria-label=\"{}\">", class_of(frame.classes), size, html_text(frame.label)) +
         shapes_ + "</svg>";
}

std::string SvgCanvas::file(const Frame& frame, std::string_view style) const {
  return format("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" ",
                frame.width, frame.height) +
         format(
             "role=\"img\" aria-label=\"{}\">\n<style>{}</style>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>",
             html_text(frame.label), style) +
         one_shape_a_line(shapes_) + "\n</svg>\n";
}

}  // namespace longhaul
