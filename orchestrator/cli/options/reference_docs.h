// The reference in Markdown, written from the tables that the program itself works with.
#pragma once

#include <string>
#include <vector>

namespace longhaul {

struct ReferencePage {
  std::string name;  // "exit-codes.md"
  std::string text;
};
std::vector<ReferencePage> reference_pages();

}  // namespace longhaul
