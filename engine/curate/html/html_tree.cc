#include "engine/curate/html/html_tree.h"

#include <gumbo.h>

#include <array>
#include <memory>

#include "base/text/text.h"
#include "engine/curate/html/html_arena.h"
#include "engine/curate/html/html_depth.h"
#include "engine/curate/html/html_formula.h"
#include "engine/curate/html/html_names.h"

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

std::string_view attribute_of(const GumboElement& element, const char* name) {
  const GumboAttribute* attribute = gumbo_get_attribute(&element.attributes, name);
  return attribute ? std::string_view(attribute->value) : std::string_view();
}

// Also of elements that the parser has no number for.
std::string name_of(const GumboElement& element) {
  if (element.tag != GUMBO_TAG_UNKNOWN) return gumbo_normalized_tagname(element.tag);
  GumboStringPiece piece = element.original_tag;
  gumbo_tag_from_original_text(&piece);
  return lower_ascii(std::string_view(piece.data ? piece.data : "", piece.data ? piece.length : 0));
}

MathNode math_node(const GumboElement& element) {
  MathNode math;
  math.tag = name_of(element);
  for (unsigned i = 0; i < element.children.length; ++i) {
    const auto* child = static_cast<const GumboNode*>(element.children.data[i]);
    if (child->type == GUMBO_NODE_ELEMENT) {
      math.children.push_back(math_node(child->v.element));
    } else {
      text_below(child, math.text);
    }
  }
  return math;
}

// What the elements below `node` say of the formula that they are.
void read_formula(const GumboNode* node, FormulaSources& sources) {
  if (node->type != GUMBO_NODE_ELEMENT) return;
  const GumboElement& element = node->v.element;
  for (const char* name : {"data-latex", "data-latex-script", "data-tex"}) {
    if (sources.tex.empty()) sources.tex = attribute_of(element, name);
  }
  if (element.tag == GUMBO_TAG_MATH) {
    if (sources.alternative.empty()) sources.alternative = attribute_of(element, "alttext");
    if (sources.mathml.empty()) sources.mathml = latex_of_mathml(math_node(element));
    sources.display = sources.display || attribute_of(element, "display") == "block";
  } else if (element.tag == GUMBO_TAG_IMG) {
    if (sources.alternative.empty()) sources.alternative = attribute_of(element, "alt");
  } else if (element.tag == GUMBO_TAG_UNKNOWN && sources.tex.empty()) {
    const std::string encoding = lower_ascii(attribute_of(element, "encoding").substr(0, 100));
    if (encoding.find("tex") != std::string::npos && name_of(element) == "annotation") text_below(node, sources.tex);
  }
  for (unsigned i = 0; i < element.children.length; ++i) {
    read_formula(static_cast<const GumboNode*>(element.children.data[i]), sources);
  }
}

// A class that begins as those of formulas do; spares most elements the look at all of them.
bool may_name_formula(std::string_view names) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    const char c = static_cast<char>(names[i] | 0x20);
    if ((c == 'k' || c == 'm') && (i == 0 || names[i - 1] == ' ')) return true;
  }
  return false;
}

// Is this the outermost element of one formula?
bool is_formula(const GumboElement& element) {
  if (element.tag == GUMBO_TAG_MATH) return true;
  if (element.tag == GUMBO_TAG_UNKNOWN && name_of(element) == "mjx-container") return true;
  if (element.attributes.length == 0) return false;
  std::string_view names;
  for (unsigned i = 0; i < element.attributes.length; ++i) {
    const auto* attribute = static_cast<const GumboAttribute*>(element.attributes.data[i]);
    const std::string_view name = attribute->name;
    if (name == "class") names = attribute->value;
    if (name == "data-latex" || name == "data-latex-script" || name == "data-tex") return attribute->value[0] != 0;
  }
  if (element.tag == GUMBO_TAG_IMG)
    return is_formula_image(name_words(names.substr(0, 400)), attribute_of(element, "alt"),
                            attribute_of(element, "src"));
  if (element.tag != GUMBO_TAG_SPAN && element.tag != GUMBO_TAG_DIV) return false;
  if (!may_name_formula(names.substr(0, 400))) return false;
  const std::string tokens = format(" {} ", lower_ascii(names.substr(0, 400)));
  for (const char* token : {" katex ", " katex-display ", " mathjax ", " mathjax_display ", " mwe-math-element "}) {
    if (tokens.find(token) != std::string::npos) return true;
  }
  return false;
}

class TreeBuilder {
 public:
  // `tex_scripts`: the page holds the source of its formulas in scripts, and what was rendered of them beside.
  TreeBuilder(HtmlTree& tree, std::size_t nodes_max, bool tex_scripts)
      : tree_(tree), nodes_max_(nodes_max), tex_scripts_(tex_scripts) {}

  // Recursion is as deep as the page, which limit_html_depth() has cut.
  void add(const GumboNode* node, std::int32_t parent) {
    if (tree_.nodes.size() >= nodes_max_) return;
    switch (node->type) {
      case GUMBO_NODE_TEXT:
      case GUMBO_NODE_WHITESPACE:
      case GUMBO_NODE_CDATA: add_text(node->v.text.text, parent); break;
      case GUMBO_NODE_ELEMENT: add_element(node->v.element, node, parent); break;
      default: break;  // comments, templates
    }
  }

 private:
  void add_text(std::string text, std::int32_t parent) {
    HtmlNode node;
    node.tag = HtmlTag::text;
    node.parent = parent;
    node.text = std::move(text);
    tree_.nodes.push_back(std::move(node));
    tree_.nodes.back().end = static_cast<std::int32_t>(tree_.nodes.size());
  }

  void add_formula(const GumboElement& element, const GumboNode* node, std::int32_t parent) {
    const std::string tokens = lower_ascii(attribute_of(element, "class").substr(0, 400));
    const bool rendered = tokens.find("mathjax") != std::string::npos;
    if (tex_scripts_ && rendered) return;
    FormulaSources sources;
    sources.display = tokens.find("display") != std::string::npos || attribute_of(element, "display") == "true" ||
                      gumbo_get_attribute(&element.attributes, "data-latex-display");
    read_formula(node, sources);
    text_below(node, sources.plain);
    if (std::string text = formula_text(sources); !text.empty()) add_text(std::move(text), parent);
  }

  void add_element(const GumboElement& element, const GumboNode* node, std::int32_t parent) {
    static const auto table = make_tag_table();
    const HtmlTag tag = table[element.tag];
    if (tag == HtmlTag::title && tree_.title.empty()) {
      std::string text;
      text_below(node, text);
      tree_.title = collapse_blanks(text);
    }
    if (element.tag == GUMBO_TAG_LINK) read_link(element);
    if (tag == HtmlTag::title || is_never_text(element.tag)) return;
    if (is_formula(element)) return add_formula(element, node, parent);
    const auto index = static_cast<std::int32_t>(tree_.nodes.size());
    HtmlNode own;
    own.tag = tag;
    own.parent = parent;
    read_attributes(element, own);
    if (tag == HtmlTag::meta) return;
    const bool rendered = element.tag == GUMBO_TAG_SPAN || element.tag == GUMBO_TAG_DIV;
    if (tex_scripts_ && rendered && has_name_word(own.hint, "math jax")) return;
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

  static bool is_hiding_style(std::string_view value) {
    std::string style;
    for (const char c : lower_ascii(value.substr(0, 2000))) {
      if (c != ' ' && c != '\t' && c != '\n' && c != '\r') style += c;
    }
    return style.find("display:none") != std::string::npos || style.find("visibility:hidden") != std::string::npos;
  }

  static bool is_furniture_role(std::string_view role) {
    for (const char* known : {"navigation", "search", "banner", "contentinfo", "complementary", "menu", "menubar",
                              "toolbar", "tooltip", "dialog", "alertdialog", "alert"}) {
      if (role == known) return true;
    }
    return false;
  }

  void read_attributes(const GumboElement& element, HtmlNode& own) {
    std::string_view property, content, itemprop;
    for (unsigned i = 0; i < element.attributes.length; ++i) {
      const auto* attribute = static_cast<const GumboAttribute*>(element.attributes.data[i]);
      const std::string_view name = attribute->name, value = attribute->value;
      if (name == "class" || name == "id" || name == "itemprop") {
        own.hint += name_words(value.substr(0, 400));
        if (name == "itemprop") itemprop = value;
      } else if (name == "role") {
        own.landmark = is_furniture_role(lower_ascii(value.substr(0, 40)));
      } else if (name == "hidden") {
        own.hidden = true;
      } else if (name == "aria-hidden") {
        own.hidden = own.hidden || value == "true";
      } else if (name == "style") {
        own.hidden = own.hidden || is_hiding_style(value);
      } else if (name == "href") {
        own.link = own.tag == HtmlTag::a;
      } else if (name == "property" || name == "name") {
        property = value;
      } else if (name == "content" || name == "datetime") {
        content = value;
      } else if (name == "lang" && own.tag == HtmlTag::html) {
        tree_.language = collapse_blanks(value.substr(0, 40));
      }
    }
    for (const char* word : {"lineno", "linenumber", "line number"}) {
      own.hidden = own.hidden || (own.hint.find("line") != std::string::npos && has_name_word(own.hint, word) &&
                                  own.tag != HtmlTag::pre && own.tag != HtmlTag::div && own.tag != HtmlTag::table &&
                                  own.tag != HtmlTag::code);
    }
    if (!content.empty()) read_metadata(lower_ascii(itemprop.empty() ? property : itemprop), content.substr(0, 1000));
  }

  // The first that a page states counts.
  void read_metadata(const std::string& key, std::string_view value) {
    const auto set = [&](std::string& field, std::initializer_list<const char*> keys) {
      if (!field.empty()) return;
      for (const char* known : keys) {
        if (key == known) field = collapse_blanks(value);
      }
    };
    set(tree_.headline, {"og:title"});
    set(tree_.author, {"author", "article:author", "dc.creator", "citation_author"});
    set(tree_.date, {"article:published_time", "datepublished", "date", "dc.date", "citation_publication_date"});
    set(tree_.url, {"og:url"});
  }

  void read_link(const GumboElement& element) {
    if (attribute_of(element, "rel") == "canonical") tree_.url = collapse_blanks(attribute_of(element, "href"));
  }

  HtmlTree& tree_;
  std::size_t nodes_max_;
  bool tex_scripts_;
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
  HtmlArena arena;  // holds the parser's tree until this function ends
#ifndef __SANITIZE_ADDRESS__
  options.userdata = &arena;
  options.allocator = [](void* memory, std::size_t bytes) { return static_cast<HtmlArena*>(memory)->allocate(bytes); };
  options.deallocator = [](void* memory, void* block) { static_cast<HtmlArena*>(memory)->release(block); };
#endif
  const auto destroy = [&](GumboOutput* output) {
    if (options.userdata != &arena) gumbo_destroy_output(&options, output);
  };
  const std::unique_ptr<GumboOutput, decltype(destroy)> output(
      gumbo_parse_with_options(&options, shallow.data(), shallow.size()), destroy);
  const bool tex_scripts = shallow.find("<span data-latex-script=") != std::string::npos;
  if (output && output->root) TreeBuilder(tree, nodes_max, tex_scripts).add(output->root, -1);
  if (tree.nodes.empty()) {
    tree.nodes.emplace_back();
    tree.nodes.back().end = 1;
  }
  return tree;
}

}  // namespace longhaul
