// A page as a tree of elements and text, in one array. The only file that knows the parser (gumbo) is html_tree.cc.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace longhaul {

enum class HtmlTag : std::uint8_t {
  text,
  other,
  html,
  head,
  title,
  body,
  article,
  main,
  section,
  div,
  span,
  p,
  a,
  br,
  hr,
  h1,
  h2,
  h3,
  h4,
  h5,
  h6,
  ul,
  ol,
  li,
  dl,
  dt,
  dd,
  table,
  caption,
  tr,
  td,
  th,
  pre,
  code,
  blockquote,
  figure,
  figcaption,
  nav,
  aside,
  header,
  footer,
  form,
  label,
  button,
  address,
  meta,
  details,
  summary,
  img,
  time,
  center,
  hgroup,
  menu,
  cite,
};
constexpr bool is_heading(HtmlTag tag) {
  return tag >= HtmlTag::h1 && tag <= HtmlTag::h6;
}
// Elements that start a paragraph of their own.
bool is_block(HtmlTag tag);

struct HtmlNode {
  HtmlTag tag = HtmlTag::other;
  std::int32_t parent = -1;
  std::int32_t end = 0;   // nodes [i, end) are this node and all below it, in document order
  bool hidden = false;    // hidden, aria-hidden, display: none, visibility: hidden, or a line number of a listing
  bool link = false;      // <a href>
  bool landmark = false;  // a role of page furniture: navigation, search, banner, ...
  std::string text;       // of text nodes; of formulas their LaTeX between dollars
  std::string hint;       // class, id, itemprop as name_words() gives them: what the author calls the element
};

struct HtmlTree {
  std::vector<HtmlNode> nodes;              // nodes[0] is the root; parents stand before children
  std::string title;                        // of <title>, blanks collapsed
  std::string headline;                     // of <meta property="og:title">, may be empty
  std::string author, date, url, language;  // as the page states them; "" where it does not
};

// `html` is valid UTF-8. Never fails: anything is a page, perhaps an empty one. Nesting is cut at `depth_max`; at most
// `nodes_max` nodes are taken over.
HtmlTree parse_html(std::string_view html, int depth_max = 256, std::size_t nodes_max = 2'000'000);

}  // namespace longhaul
