// YAML text to Value with positions. The only file that knows libyaml is yaml.cc.
//
// Scalars are what YAML 1.1 says and PyYAML reads: `yes` and `on` are true, `010` is 8, `1e5` without a point is text.
// Numbers beyond 64 bits and of base 60 (`12:30`) are refused; dates stay text. Keys are texts, as they were written.
// Anchors, aliases and block scalars are read; several documents, merge keys (`<<`), keys given twice and tags are
// refused. A tag such as !function stands for what a program of somebody else would make of the value.
#pragma once

#include <string>
#include <string_view>

#include "base/error/diagnostics.h"
#include "base/value/value.h"

namespace longhaul {

// One document; empty text is null. Every value and key of the result knows its line and column in `file_name`.
// All that is refused goes to `diagnostics`, with its place, and is null in the result; a syntax error is the last.
// Bounded: 64 levels, 100,000 values with what aliases repeat.
Value parse_yaml(std::string_view text, const std::string& file_name, Diagnostics& diagnostics);

}  // namespace longhaul
