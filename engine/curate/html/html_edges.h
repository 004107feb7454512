// What stands at the head and at the end of a page's main text and is about the page, not of it: lines of date and
// address above the first paragraph, links to other pages and notices of copyright below the last, labels that stand
// between the paragraphs again and again. Judged by position, link density and repetition within the page.
#pragma once

#include <vector>

#include "engine/curate/html/html_blocks.h"
#include "engine/curate/html/html_tree.h"

namespace longhaul {

// A word or two outside of paragraphs, headings and lists: "Text size".
bool is_label(const HtmlBlock& block);

// `selected`: the blocks of the main text in their order. Headings, rows of tables, listings and items of lists above
// the end are never taken.
void drop_edges(const HtmlTree& tree, std::vector<const HtmlBlock*>& selected);

}  // namespace longhaul
