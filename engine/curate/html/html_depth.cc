#include "engine/curate/html/html_depth.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/text/text.h"

namespace longhaul {
namespace {

constexpr int formatting_depth_max = 16;
constexpr std::size_t tag_bytes_max = 8192;

// Elements without content, and those that a parser closes by itself when the next one opens: neither nests.
const std::unordered_set<std::string>& never_nested() {
  static const std::unordered_set<std::string> names = {
      "area",  "base",  "br",     "col",      "embed",    "hr",      "img", "input", "link", "meta", "param", "source",
      "track", "wbr",   "frame",  "a",        "p",        "li",      "dt",  "dd",    "tr",   "td",   "th",    "thead",
      "tbody", "tfoot", "option", "optgroup", "colgroup", "caption", "rp",  "rt",    "html", "head", "body"};
  return names;
}

const std::unordered_set<std::string>& formatting() {
  static const std::unordered_set<std::string> names = {"b", "big",   "code",   "em",     "font", "i", "nobr",
                                                        "s", "small", "strike", "strong", "tt",   "u"};
  return names;
}

// How many levels an element brings with it: a parser puts <tbody>, <tr> and <td> into each table, a list has items.
int levels_of(const std::string& name) {
  if (name == "table") return 4;
  return name == "ul" || name == "ol" || name == "dl" ? 2 : 1;
}

// Their content is not text, and may look like tags.
const std::unordered_set<std::string>& dropped_with_content() {
  static const std::unordered_set<std::string> names = {"script", "style",    "noscript", "iframe", "template", "svg",
                                                        "object", "textarea", "select",   "xmp",    "noembed"};
  return names;
}

bool name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == ':';
}

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
}

// Where a tag that starts at `pos` ends (behind its '>'), quotes respected; npos when it never does.
std::size_t tag_end(std::string_view html, std::size_t pos) {
  char quote = 0;
  for (std::size_t i = pos; i < html.size(); ++i) {
    const char c = html[i];
    if (quote) {
      if (c == quote) quote = 0;
    } else if ((c == '"' || c == '\'') && i > pos && html[i - 1] == '=') {
      quote = c;
    } else if (c == '>') {
      return i + 1;
    }
  }
  return std::string_view::npos;
}

// Case-insensitive search of "</name" from `pos`.
std::size_t find_close(std::string_view html, std::size_t pos, const std::string& name) {
  while ((pos = html.find("</", pos)) != std::string_view::npos) {
    std::size_t i = 0;
    while (i < name.size() && pos + 2 + i < html.size() && lower(html[pos + 2 + i]) == name[i]) ++i;
    if (i == name.size() && (pos + 2 + i == html.size() || !name_char(html[pos + 2 + i]))) return pos;
    pos += 2;
  }
  return std::string_view::npos;
}

class DepthLimiter {
 public:
  DepthLimiter(std::string_view html, int depth_max) : html_(html), depth_max_(depth_max) { out_.reserve(html.size()); }

  std::string run() {
    while (pos_ < html_.size()) {
      const std::size_t open = html_.find('<', pos_);
      out_.append(html_.substr(pos_, open == std::string_view::npos ? html_.size() - pos_ : open - pos_));
      if (open == std::string_view::npos) break;
      pos_ = open;
      markup();
    }
    return std::move(out_);
  }

 private:
  struct Open {
    std::string name;
    int kept;  // its levels; 0: dropped
  };

  void markup() {
    const std::string_view rest = html_.substr(pos_);
    if (rest.substr(0, 4) == "<!--") return skip_comment();
    const bool closing = rest.size() > 1 && rest[1] == '/';
    std::string name;
    for (std::size_t i = pos_ + (closing ? 2 : 1); i < html_.size() && name_char(html_[i]) && name.size() < 64; ++i) {
      name += lower(html_[i]);
    }
    if (name.empty() && !closing && (rest.size() < 2 || (rest[1] != '!' && rest[1] != '?'))) {
      out_ += "&lt;";  // a lone '<' is text
      ++pos_;
      return;
    }
    std::size_t end = no_more_tag_ends_ ? std::string_view::npos : tag_end(html_, pos_);
    if (end == std::string_view::npos) {
      no_more_tag_ends_ = true;  // the file ends inside a tag: keep what follows as text, once, not once per '<'
      out_ += ' ';
      ++pos_;
      return;
    }
    // A parser compares every attribute of a tag with every other: of monstrous tags only the name is kept.
    std::string_view tag = html_.substr(pos_, end - pos_);
    const std::string bare = std::string(closing ? "</" : "<") + name + ">";
    if (tag.size() > tag_bytes_max) tag = bare;
    pos_ = end;
    if (!name.empty() && (rest[1] == '/' || name_char(rest[1]))) {
      closing ? close(name, tag) : open(name, tag);
    }  // else a doctype or processing instruction: nothing to keep
  }

  void skip_comment() {
    const std::size_t end = no_more_comment_ends_ ? std::string_view::npos : html_.find("-->", pos_ + 4);
    if (end == std::string_view::npos) {
      no_more_comment_ends_ = true;
      pos_ += 4;
    } else {
      pos_ = end + 3;
    }
  }

  void open(const std::string& name, std::string_view tag) {
    const bool self_closed = tag.size() > 2 && tag[tag.size() - 2] == '/';
    if (dropped_with_content().contains(name)) {
      if (self_closed) return;
      const bool hopeless = unclosed_.contains(name);
      const std::size_t end = hopeless ? std::string_view::npos : find_close(html_, pos_, name);
      if (end == std::string_view::npos) {
        unclosed_.insert(name);
        if (name == "script" || name == "style") pos_ = html_.size();  // as browsers do: the rest is its content
        return;
      }
      if (name == "script") keep_tex(tag, html_.substr(pos_, end - pos_));
      const std::size_t behind = tag_end(html_, end);
      pos_ = behind == std::string_view::npos ? html_.size() : behind;
      out_ += ' ';
      return;
    }
    if (name == "title" && self_closed) return;  // would make the rest of the page its content
    if (never_nested().contains(name)) {
      out_.append(tag);
      return;
    }
    Stack& stack = formatting().contains(name) ? formatting_ : blocks_;
    const int levels = levels_of(name);
    const bool fits = stack.kept + levels <= (&stack == &formatting_ ? formatting_depth_max : depth_max_);
    const int kept = fits ? levels : 0;
    stack.open.push_back({name, kept});
    ++stack.count[name];
    stack.kept += kept;
    anything_dropped_ = anything_dropped_ || !fits;
    fits ? out_.append(tag) : out_.append(" ");
  }

  // MathJax 2 keeps the source of a formula in a script: <script type="math/tex; mode=display">.
  void keep_tex(std::string_view tag, std::string_view source) {
    std::string start(tag.substr(0, 200));
    for (char& c : start) c = lower(c);
    if (start.find("math/tex") == std::string::npos || source.size() > tag_bytes_max) return;
    out_ += format("<span data-latex-script=\"{}\"", html_escape(source));
    if (start.find("mode=display") != std::string::npos) out_ += " data-latex-display=\"1\"";
    out_ += "></span>";
  }

  void close(const std::string& name, std::string_view tag) {
    const bool format = formatting().contains(name);
    Stack& stack = format ? formatting_ : blocks_;
    auto count = stack.count.find(name);
    if (never_nested().contains(name) || count == stack.count.end() || count->second == 0) {
      if (!anything_dropped_ || never_nested().contains(name)) out_.append(tag);
      return;
    }
    bool found = false;
    int kept = 0;
    while (!found) {
      const Open top = std::move(stack.open.back());
      stack.open.pop_back();
      --stack.count[top.name];
      stack.kept -= top.kept;
      found = top.name == name;
      kept = top.kept;
    }
    kept > 0 ? out_.append(tag) : out_.append(" ");
  }

  struct Stack {
    std::vector<Open> open;
    std::unordered_map<std::string, int> count;
    int kept = 0;
  };

  std::string_view html_;
  int depth_max_;
  std::string out_;
  std::size_t pos_ = 0;
  Stack blocks_;
  Stack formatting_;  // apart: </b> does not close the <div> that was opened behind <b>
  std::unordered_set<std::string> unclosed_;
  bool anything_dropped_ = false;
  bool no_more_tag_ends_ = false;
  bool no_more_comment_ends_ = false;
};

}  // namespace

std::string limit_html_depth(std::string_view html, int depth_max) {
  return DepthLimiter(html, depth_max).run();
}

}  // namespace longhaul
