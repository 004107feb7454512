// A page as a row of blocks: what stands between two line breaks of a browser.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/curate/html/html_tree.h"

namespace longhaul {

struct HtmlBlock {
  std::int32_t element = 0;  // index of the element it belongs to, in HtmlTree::nodes
  HtmlTag tag =
      HtmlTag::other;       // nearest of: heading, p, li, dt, dd, pre, tr, caption, figcaption, blockquote; else other
  bool list_start = false;  // first block of a list item: gets the "- "
  std::string text;         // blanks collapsed, except in <pre>
  int columns = 0;          // letters' width: 2 per wide letter; blanks not counted
  int link_columns = 0;     // of them inside <a href>
  int commas = 0;           // , and its relatives, ends of sentences included
  int cells = 0;            // of a row of a table that holds data; else 0
  std::int32_t table = 0;   // index of that table
  double link_density() const { return columns == 0 ? 0 : static_cast<double>(link_columns) / columns; }
};

// Visible blocks in document order; none is empty.
std::vector<HtmlBlock> split_into_blocks(const HtmlTree& tree);

}  // namespace longhaul
