#include "engine/curate/html_text.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/text.h"
#include "engine/curate/charset.h"
#include "engine/curate/html_blocks.h"
#include "engine/curate/html_tree.h"

namespace longhaul {
namespace {

// What authors call the parts of a page that are not its content. Matched inside class, id and role.
constexpr const char* boilerplate_parts[] = {
    "comment",     "sidebar",         "side-bar",  "related",    "footer",        "newsletter",      "social",
    "share",       "sharing",         "promo",     "breadcrumb", "sponsor",       "advert",          "cookie",
    "recommend",   "disqus",          "subscri",   "popular",    "trending",      "outbrain",        "taboola",
    "byline",      "copyright",       "toolbar",   "widget",     "masthead",      "navbar",          "navigation",
    "navheader",   "navfooter",       "docnav",    "pagination", "pager",         "skip-link",       "signup",
    "sign-up",     "most-read",       "mostread",  "read-more",  "readmore",      "more-news",       "author-bio",
    "authorbio",   "author-info",     "paywall",   "banner",     "dateline",      "timestamp",       "caption",
    "tooltip",     "modal",           "popup",     "sr-only",    "screen-reader", "visually-hidden", "indexterm",
    "next-post",   "prev-post",       "post-meta", "entry-meta", "articlemeta",   "article-meta",    "disclaimer",
    "contentinfo", "complementary",   "gallery",   "carousel",   "slideshow",     "credit",          "print-only",
    "noprint",     "teaser",          "infobox",   "tag-list",   "taglist",       "post-tags",       "article-tags",
    "yarpp",       "jp-relatedposts", "feedback",  "rating",     "hatnote",       "mw-editsection",  "printfooter",
    "catlinks",    "reflist",
};
// The same as whole words between blanks, hyphens and underscores.
constexpr const char* boilerplate_words[] = {"ad",    "ads",    "nav",     "menu",  "tags",  "meta",  "toc",
                                             "login", "aside",  "topics",  "bio",   "rel",   "date",  "author",
                                             "sns",   "bottom", "top-bar", "links", "legal", "alert", "search"};
// Elements that hold the page's content whatever else their class says.
constexpr const char* content_parts[] = {"articlebody",  "article-body", "article_body",    "entry-content",
                                         "post-content", "story-body",   "article-content", "article__body",
                                         "post-body",    "storybody"};

bool contains_any(const std::string& hint, const auto& parts) {
  return std::any_of(std::begin(parts), std::end(parts),
                     [&](const char* part) { return hint.find(part) != std::string::npos; });
}

bool contains_any_word(const std::string& hint, const auto& words) {
  const auto boundary = [](char c) { return !((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')); };
  for (const std::string_view word : words) {
    for (std::size_t at = hint.find(word); at != std::string::npos; at = hint.find(word, at + 1)) {
      const std::size_t end = at + word.size();
      if ((at == 0 || boundary(hint[at - 1])) && (end == hint.size() || boundary(hint[end]))) return true;
    }
  }
  return false;
}

enum class Role { neutral, boilerplate, content };

Role role_of(const HtmlNode& node) {
  switch (node.tag) {
    case HtmlTag::html:
    case HtmlTag::body:
    case HtmlTag::main: return Role::neutral;
    case HtmlTag::nav:
    case HtmlTag::aside:
    case HtmlTag::footer:
    case HtmlTag::menu:
    case HtmlTag::button:
    case HtmlTag::figcaption: return Role::boilerplate;
    default: break;
  }
  if (node.hint.empty()) return Role::neutral;
  if (contains_any(node.hint, content_parts)) return Role::content;
  if (node.tag == HtmlTag::article) return Role::neutral;
  if (contains_any(node.hint, boilerplate_parts) || contains_any_word(node.hint, boilerplate_words))
    return Role::boilerplate;
  return Role::neutral;
}

// Columns of text below each element.
struct TextBelow {
  double all = 0;
  double links = 0;
  double prose = 0;  // long blocks with few links
};

std::vector<TextBelow> text_below(const HtmlTree& tree, const std::vector<HtmlBlock>& blocks) {
  std::vector<TextBelow> below(tree.nodes.size());
  for (const HtmlBlock& block : blocks) {
    TextBelow& own = below[static_cast<std::size_t>(block.element)];
    own.all += block.columns;
    own.links += block.link_columns;
    if (block.columns >= 40 && block.link_density() <= 0.5) own.prose += block.columns;
  }
  for (std::size_t i = tree.nodes.size(); i-- > 1;) {
    TextBelow& parent = below[static_cast<std::size_t>(tree.nodes[i].parent)];
    parent.all += below[i].all;
    parent.links += below[i].links;
    parent.prose += below[i].prose;
  }
  return below;
}

// Books set asides in a box and call it a sidebar too; theirs are prose, those of web sites are lists of links.
bool is_box_of_prose(const HtmlNode& node, const TextBelow& text) {
  if (node.hint.find("sidebar") == std::string::npos && node.tag != HtmlTag::aside) return false;
  return text.links < 0.15 * text.all && text.prose > 0.8 * text.all;
}

// Whether each element stands in a part that its author calls boilerplate. A class name on an element that holds most
// of the page's prose ("has-sidebar" on the outermost <div>) says nothing.
std::vector<char> mark_boilerplate(const HtmlTree& tree, const std::vector<TextBelow>& below) {
  std::vector<char> bad(tree.nodes.size(), 0);
  for (std::size_t i = 0; i < tree.nodes.size(); ++i) {
    const HtmlNode& node = tree.nodes[i];
    if (node.parent >= 0) bad[i] = bad[static_cast<std::size_t>(node.parent)];
    if (bad[i] || node.tag == HtmlTag::text) continue;
    if (role_of(node) != Role::boilerplate || is_box_of_prose(node, below[i])) continue;
    const bool discussion = node.hint.find("comment") != std::string::npos;  // often longer than what it discusses
    if (below[i].prose <= (discussion ? 0.9 : 0.4) * below[0].prose) bad[i] = 1;
  }
  return bad;
}

// Positive: reads like content. The unit is one column of text.
double block_weight(const HtmlBlock& block, bool bad) {
  const double columns = block.columns;
  const double density = block.link_density();
  if (bad) return -std::min(columns, 300.0);
  if (is_heading(block.tag)) return density > 0.5 ? -columns : 0;
  if (block.tag == HtmlTag::pre) return columns;
  const bool item = block.tag == HtmlTag::li || block.tag == HtmlTag::dt;
  if (density > (item ? 0.5 : 0.6)) return -columns;
  if (columns < 25 && block.commas == 0) return -10;
  const double weight = columns * (1 - density) * (item ? 0.6 : 1.0);
  return columns < 60 && block.commas == 0 ? 0.2 * weight : weight;
}

// The element with the largest sum; of several, the deepest.
std::size_t best_element(const HtmlTree& tree, const std::vector<HtmlBlock>& blocks,
                         const std::vector<double>& weights) {
  std::vector<double> sum(tree.nodes.size(), 0);
  for (std::size_t b = 0; b < blocks.size(); ++b) sum[static_cast<std::size_t>(blocks[b].element)] += weights[b];
  for (std::size_t i = tree.nodes.size(); i-- > 1;) sum[static_cast<std::size_t>(tree.nodes[i].parent)] += sum[i];
  std::size_t best = 0;
  for (std::size_t i = 1; i < sum.size(); ++i) {
    if (sum[i] > 0 && sum[i] >= sum[best]) best = i;
  }
  return best;
}

std::string join_blocks(const std::vector<const HtmlBlock*>& blocks) {
  std::string text;
  const HtmlBlock* before = nullptr;
  for (const HtmlBlock* block : blocks) {
    const bool row = before && block->tag == before->tag && (block->tag == HtmlTag::li || block->tag == HtmlTag::tr);
    if (before) text += row ? "\n" : "\n\n";
    if (block->list_start) text += "- ";
    text += block->text;
    before = block;
  }
  return text;
}

// The blocks of the chosen element without what reads like boilerplate. Short ones stay where content follows closely
// (headings, one-word list items, the lines of a table); trailing ones go.
std::vector<const HtmlBlock*> select_blocks(const HtmlTree& tree, const std::vector<HtmlBlock>& blocks,
                                            const std::vector<double>& weights, const std::vector<char>& bad,
                                            std::size_t chosen) {
  std::vector<const HtmlBlock*> selected, waiting;
  const auto inside = [&](const HtmlBlock& block) {
    const auto element = static_cast<std::size_t>(block.element);
    return element >= chosen && block.element < tree.nodes[chosen].end;
  };
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    const HtmlBlock& block = blocks[b];
    if (!inside(block) || bad[static_cast<std::size_t>(block.element)]) continue;
    if (weights[b] > 0) {
      selected.insert(selected.end(), waiting.begin(), waiting.end());
      waiting.clear();
      selected.push_back(&block);
    } else if (weights[b] > -20 || block.link_density() < 0.5) {
      waiting.push_back(&block);
    }
  }
  return selected;
}

std::string clip(std::string_view bytes, const HtmlTextSettings& settings) {
  return std::string(bytes.substr(0, static_cast<std::size_t>(settings.bytes_max)));
}

}  // namespace

PageText extract_main_text(std::string_view bytes, const HtmlTextSettings& settings) {
  DecodedText decoded = decode_bytes(clip(bytes, settings), true);
  const HtmlTree tree = parse_html(decoded.text, settings.depth_max);
  const std::vector<HtmlBlock> blocks = split_into_blocks(tree);
  const std::vector<char> bad = mark_boilerplate(tree, text_below(tree, blocks));
  std::vector<double> weights(blocks.size());
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    weights[b] = block_weight(blocks[b], bad[static_cast<std::size_t>(blocks[b].element)]);
  }
  const std::size_t chosen = best_element(tree, blocks, weights);
  PageText page;
  // The parser turns some impossible character references into bytes that are no character.
  page.title = repair_utf8(tree.title.empty() ? tree.headline : tree.title);
  page.text = join_blocks(select_blocks(tree, blocks, weights, bad, chosen));
  page.charset = std::move(decoded.charset);
  return page;
}

PageText extract_all_text(std::string_view bytes, const HtmlTextSettings& settings) {
  DecodedText decoded = decode_bytes(clip(bytes, settings), true);
  const HtmlTree tree = parse_html(decoded.text, settings.depth_max);
  const std::vector<HtmlBlock> blocks = split_into_blocks(tree);
  std::vector<const HtmlBlock*> all;
  for (const HtmlBlock& block : blocks) all.push_back(&block);
  return {repair_utf8(tree.title), join_blocks(all), std::move(decoded.charset)};
}

}  // namespace longhaul
