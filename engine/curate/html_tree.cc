#include "engine/curate/html_tree.h"

#include <gumbo.h>

#include <array>
#include <memory>

#include "base/text.h"
#include "engine/curate/html_depth.h"

namespace longhaul {
namespace {

std::array<HtmlTag, GUMBO_TAG_LAST + 1> make_tag_table() {
  std::array<HtmlTag, GUMBO_TAG_LAST + 1> table;
  table.fill(HtmlTag::other);
#define LH_TAG(upper, lower) table[GUMBO_TAG_##upper] = HtmlTag::lower
  LH_TAG(HTML, html);
  LH_TAG(HEAD, head);
  LH_TAG(TITLE, title);
  LH_TAG(BODY, body);
  LH_TAG(ARTICLE, article);
  LH_TAG(MAIN, main);
  LH_TAG(SECTION, section);
  LH_TAG(DIV, div);
  LH_TAG(SPAN, span);
  LH_TAG(P, p);
  LH_TAG(A, a);
  LH_TAG(BR, br);
  LH_TAG(HR, hr);
  LH_TAG(H1, h1);
  LH_TAG(H2, h2);
  LH_TAG(H3, h3);
  LH_TAG(H4, h4);
  LH_TAG(H5, h5);
  LH_TAG(H6, h6);
  LH_TAG(UL, ul);
  LH_TAG(OL, ol);
  LH_TAG(LI, li);
  LH_TAG(DL, dl);
  LH_TAG(DT, dt);
  LH_TAG(DD, dd);
  LH_TAG(TABLE, table);
  LH_TAG(CAPTION, caption);
  LH_TAG(TR, tr);
  LH_TAG(TD, td);
  LH_TAG(TH, th);
  LH_TAG(PRE, pre);
  LH_TAG(LISTING, pre);
  LH_TAG(PLAINTEXT, pre);
  LH_TAG(CODE, code);
  LH_TAG(BLOCKQUOTE, blockquote);
  LH_TAG(FIGURE, figure);
  LH_TAG(FIGCAPTION, figcaption);
  LH_TAG(NAV, nav);
  LH_TAG(ASIDE, aside);
  LH_TAG(HEADER, header);
  LH_TAG(FOOTER, footer);
  LH_TAG(FORM, form);
  LH_TAG(LABEL, label);
  LH_TAG(BUTTON, button);
  LH_TAG(ADDRESS, address);
  LH_TAG(META, meta);
  LH_TAG(DETAILS, details);
  LH_TAG(SUMMARY, summary);
  LH_TAG(IMG, img);
  LH_TAG(TIME, time);
  LH_TAG(CENTER, center);
  LH_TAG(HGROUP, hgroup);
  LH_TAG(MENU, menu);
  LH_TAG(CITE, cite);
#undef LH_TAG
  return table;
}

std::string collapse_blanks(std::string_view text) {
  std::string result;
  for (const char c : text) {
    const bool blank = c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f';
    if (!blank) {
      result += c;
    } else if (!result.empty() && result.back() != ' ') {
      result += ' ';
    }
  }
  return trim(result);
}

std::string lower_ascii(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  }
  return result;
}

void text_below(const GumboNode* node, std::string& text) {
  if (node->type == GUMBO_NODE_TEXT || node->type == GUMBO_NODE_WHITESPACE || node->type == GUMBO_NODE_CDATA) {
    text += node->v.text.text;
  } else if (node->type == GUMBO_NODE_ELEMENT) {
    for (unsigned i = 0; i < node->v.element.children.length; ++i) {
      text_below(static_cast<const GumboNode*>(node->v.element.children.data[i]), text);
    }
  }
}

class TreeBuilder {
 public:
  TreeBuilder(HtmlTree& tree, std::size_t nodes_max) : tree_(tree), nodes_max_(nodes_max) {}

  // Recursion is as deep as the page, which limit_html_depth() has cut.
  void add(const GumboNode* node, std::int32_t parent) {
    if (tree_.nodes.size() >= nodes_max_) return;
    switch (node->type) {
      case GUMBO_NODE_TEXT:
      case GUMBO_NODE_WHITESPACE:
      case GUMBO_NODE_CDATA: {
        HtmlNode text;
        text.tag = HtmlTag::text;
        text.parent = parent;
        text.text = node->v.text.text;
        tree_.nodes.push_back(std::move(text));
        tree_.nodes.back().end = static_cast<std::int32_t>(tree_.nodes.size());
        break;
      }
      case GUMBO_NODE_ELEMENT: add_element(node->v.element, node, parent); break;
      default: break;  // comments, templates
    }
  }

 private:
  void add_element(const GumboElement& element, const GumboNode* node, std::int32_t parent) {
    static const auto table = make_tag_table();
    const HtmlTag tag = table[element.tag];
    if (tag == HtmlTag::title && tree_.title.empty()) {
      std::string text;
      text_below(node, text);
      tree_.title = collapse_blanks(text);
    }
    if (tag == HtmlTag::title || is_never_text(element.tag)) return;
    const auto index = static_cast<std::int32_t>(tree_.nodes.size());
    HtmlNode own;
    own.tag = tag;
    own.parent = parent;
    read_attributes(element, own);
    if (tag == HtmlTag::meta) return;
    tree_.nodes.push_back(std::move(own));
    for (unsigned i = 0; i < element.children.length; ++i) {
      add(static_cast<const GumboNode*>(element.children.data[i]), index);
    }
    tree_.nodes[static_cast<std::size_t>(index)].end = static_cast<std::int32_t>(tree_.nodes.size());
  }

  static bool is_never_text(GumboTag tag) {
    switch (tag) {
      case GUMBO_TAG_SCRIPT:
      case GUMBO_TAG_STYLE:
      case GUMBO_TAG_NOSCRIPT:
      case GUMBO_TAG_IFRAME:
      case GUMBO_TAG_OBJECT:
      case GUMBO_TAG_EMBED:
      case GUMBO_TAG_SVG:
      case GUMBO_TAG_CANVAS:
      case GUMBO_TAG_SELECT:
      case GUMBO_TAG_INPUT:
      case GUMBO_TAG_TEXTAREA:
      case GUMBO_TAG_AUDIO:
      case GUMBO_TAG_VIDEO:
      case GUMBO_TAG_TEMPLATE:
      case GUMBO_TAG_LINK: return true;
      default: return false;
    }
  }

  void read_attributes(const GumboElement& element, HtmlNode& own) {
    std::string property, content;
    for (unsigned i = 0; i < element.attributes.length; ++i) {
      const auto* attribute = static_cast<const GumboAttribute*>(element.attributes.data[i]);
      const std::string_view name = attribute->name, value = attribute->value;
      if (name == "class" || name == "id" || name == "role" || name == "itemprop") {
        own.hint += ' ' + lower_ascii(value.substr(0, 400)) + ' ';
      } else if (name == "hidden") {
        own.hidden = true;
      } else if (name == "aria-hidden") {
        own.hidden = own.hidden || value == "true";
      } else if (name == "style") {
        const std::string style = replace_all(lower_ascii(value.substr(0, 400)), " ", "");
        own.hidden = own.hidden || style.find("display:none") != std::string::npos;
      } else if (name == "href") {
        own.link = own.tag == HtmlTag::a;
      } else if (name == "property") {
        property = lower_ascii(value);
      } else if (name == "content") {
        content = value;
      }
    }
    if (property == "og:title" && tree_.headline.empty()) tree_.headline = collapse_blanks(content);
  }

  HtmlTree& tree_;
  std::size_t nodes_max_;
};

}  // namespace

bool is_block(HtmlTag tag) {
  switch (tag) {
    case HtmlTag::text:
    case HtmlTag::other:
    case HtmlTag::span:
    case HtmlTag::a:
    case HtmlTag::br:
    case HtmlTag::code:
    case HtmlTag::label:
    case HtmlTag::button:
    case HtmlTag::img:
    case HtmlTag::time:
    case HtmlTag::meta:
    case HtmlTag::cite: return false;
    default: return true;
  }
}

HtmlTree parse_html(std::string_view html, int depth_max, std::size_t nodes_max) {
  HtmlTree tree;
  const std::string shallow = limit_html_depth(html, depth_max);
  GumboOptions options = kGumboDefaultOptions;
  options.max_errors = 0;
  const auto destroy = [&](GumboOutput* output) { gumbo_destroy_output(&options, output); };
  const std::unique_ptr<GumboOutput, decltype(destroy)> output(
      gumbo_parse_with_options(&options, shallow.data(), shallow.size()), destroy);
  if (output && output->root) TreeBuilder(tree, nodes_max).add(output->root, -1);
  if (tree.nodes.empty()) {
    tree.nodes.emplace_back();
    tree.nodes.back().end = 1;
  }
  return tree;
}

}  // namespace longhaul
