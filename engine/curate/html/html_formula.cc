#include "engine/curate/html/html_formula.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "base/text/text.h"
#include "engine/curate/extract/unicode.h"
#include "engine/curate/html/html_names.h"

namespace longhaul {
namespace {

// LaTeX's names of the characters that MathML writes as themselves.
const std::unordered_map<char32_t, const char*>& symbols() {
  static const std::unordered_map<char32_t, const char*> table = {{0x3B1, "\\alpha"},
                                                                  {0x3B2, "\\beta"},
                                                                  {0x3B3, "\\gamma"},
                                                                  {0x3B4, "\\delta"},
                                                                  {0x3B5, "\\epsilon"},
                                                                  {0x3B6, "\\zeta"},
                                                                  {0x3B7, "\\eta"},
                                                                  {0x3B8, "\\theta"},
                                                                  {0x3B9, "\\iota"},
                                                                  {0x3BA, "\\kappa"},
                                                                  {0x3BB, "\\lambda"},
                                                                  {0x3BC, "\\mu"},
                                                                  {0x3BD, "\\nu"},
                                                                  {0x3BE, "\\xi"},
                                                                  {0x3C0, "\\pi"},
                                                                  {0x3C1, "\\rho"},
                                                                  {0x3C3, "\\sigma"},
                                                                  {0x3C4, "\\tau"},
                                                                  {0x3C5, "\\upsilon"},
                                                                  {0x3C6, "\\phi"},
                                                                  {0x3C7, "\\chi"},
                                                                  {0x3C8, "\\psi"},
                                                                  {0x3C9, "\\omega"},
                                                                  {0x393, "\\Gamma"},
                                                                  {0x394, "\\Delta"},
                                                                  {0x398, "\\Theta"},
                                                                  {0x39B, "\\Lambda"},
                                                                  {0x39E, "\\Xi"},
                                                                  {0x3A0, "\\Pi"},
                                                                  {0x3A3, "\\Sigma"},
                                                                  {0x3A6, "\\Phi"},
                                                                  {0x3A8, "\\Psi"},
                                                                  {0x3A9, "\\Omega"},
                                                                  {0xB1, "\\pm"},
                                                                  {0xD7, "\\times"},
                                                                  {0xF7, "\\div"},
                                                                  {0xB7, "\\cdot"},
                                                                  {0x22C5, "\\cdot"},
                                                                  {0x2212, "-"},
                                                                  {0x2264, "\\le"},
                                                                  {0x2265, "\\ge"},
                                                                  {0x2260, "\\ne"},
                                                                  {0x2248, "\\approx"},
                                                                  {0x2261, "\\equiv"},
                                                                  {0x221E, "\\infty"},
                                                                  {0x2211, "\\sum"},
                                                                  {0x220F, "\\prod"},
                                                                  {0x222B, "\\int"},
                                                                  {0x2202, "\\partial"},
                                                                  {0x2207, "\\nabla"},
                                                                  {0x2208, "\\in"},
                                                                  {0x2209, "\\notin"},
                                                                  {0x2282, "\\subset"},
                                                                  {0x2286, "\\subseteq"},
                                                                  {0x222A, "\\cup"},
                                                                  {0x2229, "\\cap"},
                                                                  {0x2192, "\\to"},
                                                                  {0x2190, "\\leftarrow"},
                                                                  {0x21D2, "\\Rightarrow"},
                                                                  {0x21D4, "\\Leftrightarrow"},
                                                                  {0x2200, "\\forall"},
                                                                  {0x2203, "\\exists"},
                                                                  {0x2026, "\\dots"},
                                                                  {0x22EF, "\\cdots"},
                                                                  {0x221D, "\\propto"},
                                                                  {0x211D, "\\mathbb{R}"},
                                                                  {0x2115, "\\mathbb{N}"},
                                                                  {0x2124, "\\mathbb{Z}"},
                                                                  {0x2102, "\\mathbb{C}"},
                                                                  {0x211A, "\\mathbb{Q}"},
                                                                  {0x27E8, "\\langle"},
                                                                  {0x27E9, "\\rangle"},
                                                                  {0x2061, ""},
                                                                  {0x2062, ""},
                                                                  {0x2063, ""},
                                                                  {0x2064, ""},
                                                                  {0xA0, " "}};
  return table;
}

bool is_ascii_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// A command ends where its letters do: "\pi" before "r" needs a blank.
void append_latex(std::string& out, std::string_view piece) {
  if (piece.empty()) return;
  std::size_t letters = 0;
  while (letters < out.size() && is_ascii_letter(out[out.size() - 1 - letters])) ++letters;
  const bool command = letters > 0 && letters < out.size() && out[out.size() - 1 - letters] == '\\';
  if (command && is_ascii_letter(piece.front())) out += ' ';
  out += piece;
}

std::string characters(std::string_view text) {
  std::string out;
  for (std::size_t pos = 0; pos < text.size();) {
    const std::size_t start = pos;
    const char32_t c = next_code_point(text, pos);
    const auto known = c < 0x80 ? symbols().end() : symbols().find(c);
    append_latex(out, known == symbols().end() ? text.substr(start, pos - start) : std::string_view(known->second));
  }
  return out;
}

std::string braced(const std::string& latex) {
  return format("{{{}}}", latex);
}

// What an index can be put to: one character, one command, or a group.
std::string as_base(const std::string& latex) {
  std::size_t pos = 0;
  if (!latex.empty()) (void)next_code_point(latex, pos);
  const bool command = latex.size() > 1 && latex[0] == '\\' &&
                       std::all_of(latex.begin() + 1, latex.end(), [](char c) { return is_ascii_letter(c); });
  return pos == latex.size() || command ? latex : braced(latex);
}

std::string convert(const MathNode& node);

std::string children_of(const MathNode& node) {
  std::string out;
  for (const MathNode& child : node.children) append_latex(out, convert(child));
  return out;
}

std::string identifier(const std::string& name) {
  static const std::unordered_set<std::string_view> functions = {"sin", "cos", "tan", "log",  "ln",   "exp",
                                                                 "lim", "max", "min", "sup",  "inf",  "det",
                                                                 "dim", "gcd", "arg", "sinh", "cosh", "tanh"};
  if (functions.contains(name)) return format("\\{}", name);
  std::size_t pos = 0;
  if (!name.empty()) (void)next_code_point(name, pos);
  return pos >= name.size() ? characters(name) : format("\\mathrm{}", braced(characters(name)));
}

std::string accented(const std::string& base, const std::string& over) {
  static const std::unordered_map<std::string_view, const char*> accents = {
      {"\xC2\xAF", "\\bar"}, {"\xE2\x80\xBE", "\\bar"}, {"^", "\\hat"},
      {"~", "\\tilde"},      {"\\to", "\\vec"},         {"\xCB\x9C", "\\tilde"},
      {"\xCB\x86", "\\hat"}, {"\xCB\x99", "\\dot"},     {"\xC2\xA8", "\\ddot"},
      {"_", "\\bar"}};
  const auto known = accents.find(over);
  if (known != accents.end()) return format("{}{}", known->second, braced(base));
  return base == "\\sum" || base == "\\prod" || base == "\\int" ? base + "^" + braced(over)
                                                                : format("\\overset{}{}", braced(over), braced(base));
}

std::string matrix(const MathNode& node) {
  std::string rows;
  for (const MathNode& row : node.children) {
    if (!rows.empty()) rows += " \\\\ ";
    std::string cells;
    for (const MathNode& cell : row.children) cells += format("{}{}", cells.empty() ? "" : " & ", convert(cell));
    rows += cells;
  }
  return format("\\begin{{matrix}} {} \\end{{matrix}}", rows);
}

std::string convert(const MathNode& node) {
  const auto child = [&](std::size_t i) {
    return i < node.children.size() ? convert(node.children[i]) : std::string();
  };
  const std::string& tag = node.tag;
  if (tag == "mi") return identifier(trim(node.text));
  if (tag == "mtext" || tag == "ms") return format("\\text{}", braced(node.text));
  if (tag == "mn" || tag == "mo") return characters(trim(node.text));
  if (tag == "mspace") return " ";
  if (tag == "annotation" || tag == "annotation-xml" || tag == "mphantom") return {};
  if (tag == "semantics") return child(0);
  if (tag == "msup") return as_base(child(0)) + "^" + braced(child(1));
  if (tag == "msub" || tag == "munder") return as_base(child(0)) + "_" + braced(child(1));
  if (tag == "msubsup" || tag == "munderover")
    return as_base(child(0)) + "_" + braced(child(1)) + "^" + braced(child(2));
  if (tag == "mover") return accented(child(0), child(1));
  if (tag == "mfrac") return format("\\frac{}{}", braced(child(0)), braced(child(1)));
  if (tag == "msqrt") return format("\\sqrt{}", braced(children_of(node)));
  if (tag == "mroot") return format("\\sqrt[{}]{}", child(1), braced(child(0)));
  if (tag == "mtable") return matrix(node);
  if (tag == "mfenced") {
    std::string inside;
    for (const MathNode& part : node.children) inside += format("{}{}", inside.empty() ? "" : ",", convert(part));
    return format("({})", inside);
  }
  return node.children.empty() ? characters(trim(node.text)) : children_of(node);
}

std::string one_line(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool blank = c == ' ' || c == '\t' || c == '\n' || c == '\r';
    if (!blank) out += c;
    if (blank && !out.empty() && out.back() != ' ') out += ' ';
  }
  return trim(out);
}

// Takes `open` and `close` off, when both are there.
bool unwrap(std::string& latex, std::string_view open, std::string_view close) {
  if (latex.size() < open.size() + close.size() || !starts_with(latex, open) || !ends_with(latex, close)) return false;
  latex = trim(latex.substr(open.size(), latex.size() - open.size() - close.size()));
  return true;
}

// Does the brace that opens `latex` close at its end?
bool is_one_group(std::string_view latex) {
  int depth = 0;
  for (std::size_t i = 0; i < latex.size(); ++i) {
    if (latex[i] == '\\') {
      ++i;
    } else if (latex[i] == '{') {
      ++depth;
    } else if (latex[i] == '}' && --depth == 0) {
      return i + 1 == latex.size();
    }
  }
  return false;
}

}  // namespace

std::string latex_of_mathml(const MathNode& math) {
  return one_line(convert(math));
}

std::string formula_text(const FormulaSources& sources) {
  std::string latex;
  for (const std::string* source : {&sources.tex, &sources.alternative, &sources.mathml, &sources.plain}) {
    if (latex.empty()) latex = one_line(*source);
  }
  bool display = sources.display;
  if (unwrap(latex, "$$", "$$") || unwrap(latex, "\\[", "\\]")) display = true;
  if (!unwrap(latex, "$", "$")) unwrap(latex, "\\(", "\\)");
  for (const char* style : {"{\\displaystyle ", "{\\textstyle ", "{\\scriptstyle "}) {
    if (is_one_group(latex)) unwrap(latex, style, "}");
  }
  if (latex.empty()) return {};
  return display ? format("$${}$$", latex) : format("${}$", latex);
}

bool is_formula_image(std::string_view names, std::string_view alt, std::string_view source) {
  if (alt.empty()) return false;
  for (const char* word : {"tex", "latex", "math", "mathjax", "formula", "equation"}) {
    if (has_name_word(names, word)) return true;
  }
  for (const char* start : {"$", "\\(", "\\[", "{\\displaystyle", "\\begin{", "\\frac"}) {
    if (starts_with(alt, start)) return true;
  }
  for (const char* part : {"latex", "codecogs", "/math/", "cht=tx", "mathtex"}) {
    if (source.find(part) != std::string_view::npos) return true;
  }
  return false;
}

}  // namespace longhaul
