// HTML parsers pay for every open element at every tag: 100,000 nested <div> cost minutes. This one pass over the tags,
// before the parser, forgets start and end tags beyond a depth nobody's page needs; the text in them stays.
#pragma once

#include <string>
#include <string_view>

namespace longhaul {

// `html` is valid UTF-8. Beyond `depth_max` levels of open block elements (a table has four, with what a parser puts
// into it, a list two), or 16 open formatting elements (<b>, <font>, ..., which a parser re-opens in every paragraph),
// further tags become one blank. Comments, <script>, <style> and the like
// are dropped with their content, but for the source of formulas in scripts (math/tex), which becomes the attribute
// data-latex-script of an empty <span>. Linear in the length of the input.
std::string limit_html_depth(std::string_view html, int depth_max);

}  // namespace longhaul
