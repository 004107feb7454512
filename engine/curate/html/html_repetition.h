// Repetition over the pages of a site as evidence: a sentence or a link that stands on half of its pages belongs to the
// site, not to the page.
#pragma once

#include <cstdint>
#include <unordered_set>
#include <vector>

#include "engine/curate/html/html_blocks.h"

namespace longhaul {

// Keys of blocks, as block_key() gives them.
using RepeatedBlocks = std::unordered_set<std::uint64_t>;

inline constexpr std::size_t site_pages_min = 4;  // fewer pages say nothing about a site

// 0 of a block whose repetition says nothing: headings ("Examples"), listings and rows of tables have their words in
// common on many pages, and so have short texts that are no links.
std::uint64_t block_key(const HtmlBlock& block);

// The blocks that stand on at least half of `pages`, and on three; copies of one page count once. Empty when there are
// fewer than `site_pages_min` different ones.
RepeatedBlocks repeated_blocks(const std::vector<std::vector<HtmlBlock>>& pages);

// For each block of a page whether it belongs to the site. None does where more than half of the prose would: then the
// pages are versions of one text, not pages of a site.
std::vector<char> mark_repeated(const std::vector<HtmlBlock>& blocks, const RepeatedBlocks& repeated);

}  // namespace longhaul
