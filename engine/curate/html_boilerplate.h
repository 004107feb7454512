// Which parts of a page are its furniture: navigation, teasers, discussions, notices. Judged by evidence, strongest
// first: the element and its role (<nav>, role="search"), how much of the text is links, whether the text reads as
// prose, whether there are forms or parts of furniture inside, and what the author calls it. A name alone never removes
// a section that reads as prose.
#pragma once

#include <vector>

#include "engine/curate/html_blocks.h"
#include "engine/curate/html_tree.h"

namespace longhaul {

// For each node of the tree whether it is, or stands in, a part that is no content.
std::vector<char> mark_boilerplate(const HtmlTree& tree, const std::vector<HtmlBlock>& blocks);

}  // namespace longhaul
