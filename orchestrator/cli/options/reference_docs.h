// The reference in Markdown, written from the tables that the program itself works with.
#pragma once

#include <string>
#include <vector>

namespace longhaul {

struct ReferencePage {
  std::string name;  // "exit-codes.md"
  std::string text;
};
// Paragraphs are one line each, as long as they are.
std::vector<ReferencePage> reference_pages();
// The page as it is shown and kept: lines of prose end before column `width`; tables, headings, code, lists and
// comments stay as they are.
std::string wrapped_page(const std::string& text, std::size_t width = 120);

}  // namespace longhaul
