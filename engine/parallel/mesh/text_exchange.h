// Texts that not every rank needs: what thousands of ranks say to the first one, and what one says to all. A rank holds
// and receives its own part of it, where CollectiveGroup::all_gather_text gives every rank everything.
#pragma once

#include <string>
#include <vector>

#include "engine/parallel/mesh/collective_group.h"

namespace longhaul {

// Collective. On the first rank the texts of all, by rank; empty on the others.
Result<std::vector<std::string>> gather_text_to_first(CollectiveGroup& group, const std::string& mine);
// Collective. On every rank the text of rank `root`.
Result<std::string> broadcast_text(CollectiveGroup& group, const std::string& text, int root);
// Collective. Every rank gives its text to one rank and takes one from another; also to itself.
Result<std::string> exchange_text(CollectiveGroup& group, const std::string& mine, int to, int from);

}  // namespace longhaul
