// Room engine/curate/html
// The main text of a page: from bytes of HTML to text with formulas, tables and code.
// html_text.h is the way through it: html_tree.h parses, html_blocks.h makes blocks, html_boilerplate.h judges them.
// html_repetition.h says what pages of one site have in common.
// It knows neither files nor settings of a stage: a page comes in, a text goes out.
//
// Main-content extraction: the bytes of a web page in, its title and what a reader came for out; navigation, sidebars,
// comments and other boilerplate stay behind.
//
// The idea. A page is a row of blocks (paragraphs, headings, list items, code, ...). Each block gets a weight: positive
// when it reads like content (long, few links), negative when it reads like boilerplate (mostly links, or inside an
// element that its author calls "sidebar", "related", ...). The main content is the element whose blocks sum to the
// largest weight, the deepest one if several do; inside it, blocks that read like boilerplate are left out, and at its
// edges what is about the page and not of it (html_edges.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/curate/html/html_repetition.h"

namespace longhaul {

struct HtmlTextSettings {
  int depth_max = 256;                    // nesting beyond it is flattened before parsing
  std::uint64_t bytes_max = 16ULL << 20;  // of a page; what follows is not looked at
  bool markdown_tables = false;           // rows of tables with bars around them and a line below the first
};

struct PageText {
  std::string title;                        // UTF-8; of the page, "" if it has none
  std::string author, date, url, language;  // as the page states them; "" where it does not
  std::string
      text;  // UTF-8. Formulas are LaTeX between dollars, cells of a row stand between bars. Blocks are separated by an
             // empty line, items of one list by a newline with "- " in front; preformatted text keeps its lines
  std::string charset;              // what the bytes were taken for
  std::int64_t repeated_bytes = 0;  // of text that was left out since it belongs to the site
};

// Never fails and never hangs: random bytes give some text or none. Thread-safe. `repeated`: what is known of the
// page's site, or null.
PageText extract_main_text(std::string_view bytes, const HtmlTextSettings& settings = {},
                           const RepeatedBlocks* repeated = nullptr);

// All blocks of a page, for repeated_blocks().
std::vector<HtmlBlock> page_blocks(std::string_view bytes, const HtmlTextSettings& settings = {});

// All visible text of the page, boilerplate included: the plain peer that extraction is measured against.
PageText extract_all_text(std::string_view bytes, const HtmlTextSettings& settings = {});

}  // namespace longhaul
