// Formulas of pages as LaTeX. A page may hold a formula several times over (MathML for readers aloud, glyphs, a
// picture, the source); one of them is taken: the source where there is one, else what a picture's `alt` says, else
// MathML.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace longhaul {

// A part of a MathML tree: <mi>, <mfrac>, ...
struct MathNode {
  std::string tag;   // lower case
  std::string text;  // what stands in it directly
  std::vector<MathNode> children;
};

// Presentation MathML 3 (W3C, 2014, chapter 3) as LaTeX: "\frac{a}{b}". Elements that have no counterpart give what
// they hold.
std::string latex_of_mathml(const MathNode& math);

// The forms in which one formula of a page stands; "" where it does not.
struct FormulaSources {
  std::string tex;          // annotation, script or attribute
  std::string alternative;  // alttext of <math>, alt of a picture
  std::string mathml;       // as latex_of_mathml() gives it
  std::string plain;        // the letters that a reader sees
  bool display = false;     // on a line of its own
};

// "$x^2$", or "$$x^2$$" on a line of its own; "" when there is nothing. Delimiters and {\displaystyle ...} that the
// source brings are taken off, blanks collapse.
std::string formula_text(const FormulaSources& sources);

// Is this picture one of a formula? `names`: name_words() of its class.
bool is_formula_image(std::string_view names, std::string_view alt, std::string_view source);

}  // namespace longhaul
