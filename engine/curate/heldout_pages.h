// Which pages of a corpus are held out for evaluation. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_set>

#include "contracts/settings/stages/curate.h"

namespace longhaul {

// What heldout_bytes = -1 stands for: so much, but no more than a tenth of the text.
inline constexpr std::int64_t heldout_bytes_most = 600'000;
inline constexpr std::int64_t heldout_part_of_text = 10;

struct HeldoutChoice {
  std::unordered_set<std::string> pages;
  std::int64_t wanted = 0, taken = 0, all = 0;  // bytes of text
  std::string key;                              // "heldout_bytes = 600000": what decided `wanted`; "": nobody wrote one
  std::string note;  // for people, where the outcome may surprise: most of the text is held out, or none; else ""
};

// `page_bytes`: text of each page in all its languages. Pages are taken in an order that settings.seed decides, until
// `wanted` is reached. What the user wrote is done to the letter; where no key is written, no more than half of the
// text is taken and one page at least is left, so that something can be trained on.
HeldoutChoice choose_heldout_pages(const std::map<std::string, std::int64_t>& page_bytes,
                                   const CurateSettings& settings);

}  // namespace longhaul
