// Which parts of a page are its furniture: navigation, teasers, discussions, notices. Judged by evidence, strongest
// first: the element and its role (<nav>, role="search", an <article> that opens with a link), how much of the text is
// links, whether the text reads as prose or is quoted, whether there are forms or parts of furniture inside, and what
// the author calls it. A name alone never removes a section that reads as prose; where the author names the content, a
// part that is named as furniture and stands elsewhere may hold more prose than it.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/curate/html/html_blocks.h"
#include "engine/curate/html/html_tree.h"

namespace longhaul {

enum class PagePart : std::uint8_t {
  content,
  furniture,
  inset,  // no content, and by its place no evidence against what is around it: announcements within an article
};

// For each element of the tree what it is, or stands in.
std::vector<PagePart> mark_boilerplate(const HtmlTree& tree, const std::vector<HtmlBlock>& blocks);

}  // namespace longhaul
