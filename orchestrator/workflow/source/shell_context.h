// Where in a shell script a place stands: what bash does there with a variable. Understands quotes, comments, `$(...)`,
// backticks, arithmetic and here-documents; of a `case` inside of `$(...)` the patterns' `)` end it too early.
#pragma once

#include <string_view>

namespace longhaul {

enum class ShellContext {
  plain,          // a variable is expanded, and split into words where it holds blanks
  double_quotes,  // expanded as it is; also the body of a here-document
  single_quotes,  // not expanded; also a here-document with a quoted delimiter
  arithmetic,     // expanded, and what it holds is calculated: an index `a[$(...)]` runs a command
  comment,
};

// Of the place behind `before`, which is a script from its beginning.
ShellContext shell_context(std::string_view before);

}  // namespace longhaul
