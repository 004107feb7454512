// Which pages of a corpus are held out for evaluation. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_set>

#include "contracts/settings/stages/curate.h"

namespace longhaul {

// What heldout_bytes = -1 stands for: so much, but no more than a tenth of the text.
inline constexpr std::int64_t heldout_bytes_most = 600'000;
inline constexpr std::int64_t heldout_part_of_text = 10;
// Of a page whose end is held out: at least so much, since a model is judged on it.
inline constexpr std::int64_t heldout_end_least = 200;

struct HeldoutChoice {
  std::unordered_set<std::string> pages;
  std::int64_t wanted = 0, taken = 0, all = 0;  // bytes of text
  std::string key;                              // "heldout_bytes = 600000": what decided `wanted`; "": nobody wrote one
  // Where every page is too large to be held out whole: the largest one, and how many bytes of its end are held out
  // instead; "" and 0 otherwise. Counted in `taken`.
  std::string cut_page;
  std::int64_t cut_bytes = 0;
  std::string
      note;  // for people, where the outcome may surprise: most of the text is held out, or the end of a page; else ""
};

// `page_bytes`: text of each page in all its languages. Pages are taken in an order that settings.seed decides, until
// `wanted` is reached. What the user wrote is done to the letter; where no key is written, no more than half of the
// text is taken and one page at least is left, so that something can be trained on; of a corpus of one page the end of
// that page is held out, so that later stages have something to measure on.
HeldoutChoice choose_heldout_pages(const std::map<std::string, std::int64_t>& page_bytes,
                                   const CurateSettings& settings);

// Where the end of `text` begins that has about `wanted` bytes: at a paragraph, else a line, else a word, else a
// character (UTF-8), never in the first half. The size of `text` where it is too short to be divided.
std::size_t begin_of_heldout_end(std::string_view text, std::int64_t wanted);

}  // namespace longhaul
