#include "engine/curate/html/html_boilerplate.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <unordered_map>

#include "engine/curate/html/html_names.h"

namespace longhaul {
namespace {

// Columns of text below an element, and what else speaks for or against it.
struct TextBelow {
  double all = 0;
  double links = 0;
  double headings = 0;
  double linked_headings = 0;  // that lead elsewhere
  double quotes = 0;           // in <blockquote>
  double prose = 0;            // long blocks with few links
  int prose_blocks = 0;
  int heading_blocks = 0;
  int blocks = 0;
  std::size_t first_block = SIZE_MAX;
  bool opens_with_link = false;  // the first block leads elsewhere
  int images = 0;
  int articles = 0;   // <article>, the element itself included
  int furniture = 0;  // elements that are named like furniture, the element itself included
  int forms = 0;
};

enum class Verdict {
  neutral,
  furniture_element,  // by its tag or role
  furniture_name,     // by nothing but its name
  furniture_part,     // a word of its name is one of furniture
};

// A page has few names for its many elements: each is read once.
using KnownNames = std::unordered_map<std::string_view, NameSays>;

NameSays name_says_once(std::string_view words, KnownNames& known) {
  const auto [at, is_new] = known.try_emplace(words, NameSays::nothing);
  if (is_new) at->second = name_says(words);
  return at->second;
}

// `names`: keys are texts of the tree.
Verdict verdict_of(const HtmlNode& node, KnownNames& names) {
  switch (node.tag) {
    case HtmlTag::html:
    case HtmlTag::body:
    case HtmlTag::main: return Verdict::neutral;
    case HtmlTag::nav:
    case HtmlTag::aside:
    case HtmlTag::footer:
    case HtmlTag::menu:
    case HtmlTag::button:
    case HtmlTag::figcaption: return Verdict::furniture_element;
    default: break;
  }
  if (node.landmark) return Verdict::furniture_element;
  if (node.hint.empty() || node.tag == HtmlTag::article) return Verdict::neutral;
  switch (name_says_once(node.hint, names)) {
    case NameSays::furniture: return Verdict::furniture_name;
    case NameSays::part: return Verdict::furniture_part;
    default: return Verdict::neutral;
  }
}

std::vector<TextBelow> text_below(const HtmlTree& tree, const std::vector<HtmlBlock>& blocks,
                                  const std::vector<Verdict>& verdicts) {
  std::vector<TextBelow> below(tree.nodes.size());
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    const HtmlBlock& block = blocks[b];
    TextBelow& own = below[static_cast<std::size_t>(block.element)];
    own.first_block = std::min(own.first_block, b);
    own.all += block.columns;
    own.links += block.link_columns;
    ++own.blocks;
    if (block.tag == HtmlTag::blockquote) own.quotes += block.columns;
    if (is_heading(block.tag)) {
      own.headings += block.columns;
      if (block.link_density() > 0.5) own.linked_headings += block.columns;
      ++own.heading_blocks;
    }
    if (block.columns >= 40 && block.link_density() <= 0.5) {
      own.prose += block.columns;
      ++own.prose_blocks;
    }
  }
  for (std::size_t i = tree.nodes.size(); i-- > 1;) {
    TextBelow& own = below[i];
    own.furniture += verdicts[i] != Verdict::neutral;
    own.opens_with_link = own.first_block < blocks.size() && blocks[own.first_block].link_density() > 0.5;
    own.forms += tree.nodes[i].tag == HtmlTag::form;
    own.images += tree.nodes[i].tag == HtmlTag::img;
    own.articles += tree.nodes[i].tag == HtmlTag::article;
    TextBelow& parent = below[static_cast<std::size_t>(tree.nodes[i].parent)];
    parent.all += own.all;
    parent.links += own.links;
    parent.headings += own.headings;
    parent.linked_headings += own.linked_headings;
    parent.quotes += own.quotes;
    parent.prose += own.prose;
    parent.prose_blocks += own.prose_blocks;
    parent.heading_blocks += own.heading_blocks;
    parent.blocks += own.blocks;
    parent.first_block = std::min(parent.first_block, own.first_block);
    parent.images += own.images;
    parent.articles += own.articles;
    parent.furniture += own.furniture;
    parent.forms += own.forms;
  }
  return below;
}

// Books set asides in a box and call it a sidebar too; theirs are prose, those of web sites are lists of links.
bool is_box_of_prose(const HtmlNode& node, const TextBelow& text) {
  if (!has_name_word(node.hint, "sidebar") && node.tag != HtmlTag::aside) return false;
  return text.links < 0.15 * text.all && text.prose > 0.8 * text.all;
}

bool is_discussion(const HtmlNode& node) {
  return has_name_word(node.hint, "comment") || has_name_word(node.hint, "disqus");
}

// Sentences under a heading, or several paragraphs; no form to fill in, few links, and not a row of furniture, as the
// posts of a discussion and lists of teasers are. Where the name has words of its own, one sentence is enough.
bool reads_as_prose(const HtmlNode& node, const TextBelow& text, Verdict verdict) {
  if (text.forms > 0 || text.furniture > 2 || text.links > 0.25 * text.all) return false;
  if (text.prose == 0 || text.prose < 0.6 * (text.all - text.headings)) return false;
  if (verdict == Verdict::furniture_part) return true;
  if (text.heading_blocks > 0 && text.prose >= 80) return true;
  return !is_discussion(node) && text.prose_blocks >= 2 && text.prose >= 250;
}

// "Figure 3: ...", "Table 1.2": what a text refers to by its number is part of it.
bool is_numbered_caption(const HtmlTree& tree, std::size_t index) {
  static constexpr const char* labels[] = {
      "fig",     "table",        "tab.",         "listing",      "algorithm",
      "example", "abb",          "tabelle",      "tabla",        "figura",
      "tableau", "\xE5\x9B\xBE", "\xE5\x9B\xB3", "\xE8\xA1\xA8", "\xD1\x80\xD0\xB8\xD1\x81"};
  std::string start;
  for (auto i = static_cast<std::int32_t>(index); i < tree.nodes[index].end && start.size() < 40; ++i) {
    for (const char c : tree.nodes[static_cast<std::size_t>(i)].text.substr(0, 80)) {
      if (start.empty() && std::strchr(" \t\n\r", c)) continue;
      start += c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
    }
  }
  const bool labelled =
      std::any_of(std::begin(labels), std::end(labels), [&](const char* label) { return start.starts_with(label); });
  return labelled && start.substr(0, 16).find_first_of("0123456789") != std::string::npos;
}

// A post or a message that the author quotes within a part named "social": somebody wrote it for the reader.
bool is_quotation(const TextBelow& text, Verdict verdict) {
  return verdict != Verdict::furniture_element && text.forms == 0 && text.quotes > 0.8 * text.all;
}

// What a picture shows, in a box with it: one block that is no paragraph of its own.
bool is_picture_with_text(const HtmlTree& tree, std::size_t index, const TextBelow& text) {
  const HtmlTag tag = tree.nodes[index].tag;
  if (tag != HtmlTag::figure && tag != HtmlTag::div) return false;
  if (text.images == 0 || text.blocks != 1 || text.all > 160 || is_numbered_caption(tree, index)) return false;
  for (std::int32_t i = static_cast<std::int32_t>(index); i < tree.nodes[index].end; ++i) {
    const HtmlTag below = tree.nodes[static_cast<std::size_t>(i)].tag;
    if (below == HtmlTag::p || below == HtmlTag::tr || below == HtmlTag::li || below == HtmlTag::pre ||
        below == HtmlTag::dd || is_heading(below))
      return false;
  }
  return true;
}

// What the whole page says about where its content is.
struct PageEvidence {
  TextBelow all;
  std::size_t content = 0;  // the element with the most prose that its author calls the content; 0: none
  double teasers = 0;       // prose of the articles that announce other pages
};

// An article that opens with a link, or whose headings are links, announces another page. Within another article it is
// one of its furniture (HTML, "The article element"); elsewhere the page may be an overview, which consists of them.
bool is_teaser(const HtmlTree& tree, std::size_t index, const TextBelow& text) {
  if (tree.nodes[index].tag != HtmlTag::article || text.articles > 1) return false;
  return text.opens_with_link || (text.heading_blocks > 0 && text.linked_headings > 0.5 * text.headings);
}

bool is_within_article(const HtmlTree& tree, std::size_t index) {
  for (std::int32_t i = tree.nodes[index].parent; i >= 0; i = tree.nodes[static_cast<std::size_t>(i)].parent) {
    if (tree.nodes[static_cast<std::size_t>(i)].tag == HtmlTag::article) return true;
  }
  return false;
}

PageEvidence page_evidence(const HtmlTree& tree, const std::vector<TextBelow>& below, KnownNames& names) {
  PageEvidence page;
  page.all = below[0];
  for (std::size_t i = 1; i < tree.nodes.size(); ++i) {
    const HtmlNode& node = tree.nodes[i];
    if (node.tag == HtmlTag::text) continue;
    if (is_teaser(tree, i, below[i]) && below[i].prose <= 0.4 * page.all.prose) page.teasers += below[i].prose;
    if (node.hint.empty() || below[i].prose < 200) continue;
    if (name_says_once(node.hint, names) != NameSays::content) continue;
    if (page.content == 0 || below[i].prose > below[page.content].prose) page.content = i;
  }
  return page;
}

bool is_small_teaser(const HtmlTree& tree, std::size_t index, const TextBelow& text, const PageEvidence& page) {
  return is_teaser(tree, index, text) && text.prose <= 0.4 * page.all.prose;
}

bool is_boilerplate(const HtmlTree& tree, std::size_t index, const TextBelow& text, const PageEvidence& page,
                    Verdict verdict) {
  const HtmlNode& node = tree.nodes[index];
  if (is_small_teaser(tree, index, text, page) && page.teasers <= 0.6 * page.all.prose) return true;
  if (is_picture_with_text(tree, index, text)) return true;
  if (verdict == Verdict::neutral || is_box_of_prose(node, text) || is_quotation(text, verdict)) return false;
  if (node.tag == HtmlTag::figcaption || has_name_word(node.hint, "caption")) {
    if (is_numbered_caption(tree, index)) return false;
  }
  if (verdict != Verdict::furniture_element && reads_as_prose(node, text, verdict)) return false;
  // A name on what holds most of the page's prose says nothing, unless the content has a name of its own elsewhere; a
  // discussion is often longer than what it discusses.
  const auto own = static_cast<std::int32_t>(index), content = static_cast<std::int32_t>(page.content);
  const bool apart = content > 0 && (content >= node.end || own >= tree.nodes[page.content].end);
  return apart || text.prose <= (is_discussion(node) ? 0.9 : 0.4) * page.all.prose;
}

}  // namespace

std::vector<PagePart> mark_boilerplate(const HtmlTree& tree, const std::vector<HtmlBlock>& blocks) {
  KnownNames names;
  std::vector<Verdict> verdicts(tree.nodes.size(), Verdict::neutral);
  for (std::size_t i = 0; i < tree.nodes.size(); ++i) {
    if (tree.nodes[i].tag != HtmlTag::text) verdicts[i] = verdict_of(tree.nodes[i], names);
  }
  const std::vector<TextBelow> below = text_below(tree, blocks, verdicts);
  const PageEvidence page = page_evidence(tree, below, names);
  std::vector<PagePart> parts(tree.nodes.size(), PagePart::content);
  for (std::size_t i = 0; i < tree.nodes.size(); ++i) {
    const HtmlNode& node = tree.nodes[i];
    if (node.tag == HtmlTag::text) continue;
    if (node.parent >= 0) parts[i] = parts[static_cast<std::size_t>(node.parent)];
    if (parts[i] != PagePart::content) continue;
    if (is_small_teaser(tree, i, below[i], page) && is_within_article(tree, i)) {
      parts[i] = PagePart::inset;
    } else if (is_boilerplate(tree, i, below[i], page, verdicts[i])) {
      parts[i] = PagePart::furniture;
    }
  }
  return parts;
}

}  // namespace longhaul
