// docs/figures is what the code draws. To renew it: longhaul docs --figures docs/figures
#include "orchestrator/cli/figures/code_figures.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "base/files/files.h"
#include "base/text/text.h"
#include "orchestrator/cli/figures/figure_page.h"

namespace longhaul {
namespace {

struct DrawnText {
  std::string text;
  double left = 0, right = 0, top = 0, bottom = 0;

  bool lies_over(const DrawnText& other) const {
    return left < other.right && other.left < right && top < other.bottom && other.top < bottom;
  }
};

std::string unescaped(std::string text) {
  for (const auto& [escaped, plain] :
       {std::pair{"&lt;", "<"}, {"&gt;", ">"}, {"&quot;", "\""}, {"&#39;", "'"}, {"&amp;", "&"}})
    text = replace_all(text, escaped, plain);
  return text;
}

// The value of an attribute of an element, which is written as the canvas writes it: name="value". "": it has none.
std::string attribute(std::string_view element, const std::string& name) {
  const std::string start = " " + name + "=\"";
  const std::size_t at = element.substr(0, element.find('>')).find(start);
  if (at == std::string_view::npos) return "";
  const std::string_view rest = element.substr(at + start.size());
  return std::string(rest.substr(0, rest.find('"')));
}

std::vector<DrawnText> texts_of(std::string_view svg) {
  std::vector<DrawnText> texts;
  for (std::size_t at = svg.find("<text "); at != std::string_view::npos; at = svg.find("<text ", at + 1)) {
    const std::string_view element = svg.substr(at, svg.find("</text>", at) - at);
    const std::string classes = attribute(element, "class");
    const std::string text = unescaped(std::string(element.substr(element.find('>') + 1)));
    const double x = std::stod(attribute(element, "x")), y = std::stod(attribute(element, "y"));
    const double width = text_width(classes, text);
    const bool is_small = classes.find("small") != std::string::npos || classes.find("mono") != std::string::npos;
    const double size = is_small ? 11 : 13;
    const double left = classes.find("middle") != std::string::npos ? x - width / 2
                        : classes.find("end") != std::string::npos  ? x - width
                                                                    : x;
    texts.push_back({text, left, left + width, y - 0.75 * size, y + 0.2 * size});
  }
  return texts;
}

TEST_CASE("docs/figures is what the code draws") {
  const std::string folder = LONGHAUL_SOURCE_DIR "/docs/figures";
  std::vector<std::string> names;
  for (const CodeFigure& figure : code_figures()) {
    names.push_back(figure.name);
    const auto kept = read_file(join_path(folder, figure.name));
    REQUIRE_MESSAGE(kept.ok(), kept.error().message());
    const bool fresh = *kept == figure.svg;
    CHECK_MESSAGE(fresh, figure.name << " is stale: run longhaul docs --figures docs/figures");
  }
  const auto kept = list_directory(folder);
  REQUIRE(kept.ok());
  std::sort(names.begin(), names.end());
  CHECK(*kept == names);
}

TEST_CASE("the texts of a figure lie inside of it, and none over another") {
  for (const CodeFigure& figure : code_figures()) {
    CAPTURE(figure.name);
    const double width = std::stod(attribute(figure.svg, "width"));
    const double height = std::stod(attribute(figure.svg, "height"));
    const std::vector<DrawnText> texts = texts_of(figure.svg);
    REQUIRE(texts.size() > 20);
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const DrawnText& one = texts[i];
      const bool inside = one.left >= 0 && one.right <= width && one.top >= 0 && one.bottom <= height;
      CHECK_MESSAGE(inside, "'" << one.text << "' leaves the figure");
      for (std::size_t k = i + 1; k < texts.size(); ++k)
        CHECK_MESSAGE(!one.lies_over(texts[k]), "'" << one.text << "' and '" << texts[k].text << "'");
    }
  }
}

TEST_CASE("text is broken at words, and a word that is too long has a line of its own") {
  CHECK(broken_text("", 70, "two words here") == std::vector<std::string>{"two words", "here"});
  CHECK(broken_text("", 20, "incomprehensible a") == std::vector<std::string>{"incomprehensible", "a"});
  CHECK(broken_text("", 60, "").empty());
}

}  // namespace
}  // namespace longhaul
