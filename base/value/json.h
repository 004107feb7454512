// JSON text to Value and back. The only file that knows the JSON library is json.cc.
#pragma once

#include <string>
#include <string_view>

#include "base/value/value.h"

namespace longhaul {

// Parses one JSON document; `name` is the file's name for the error, which carries the byte offset. Integers that do
// not fit 64 signed bits become numbers. Nesting is limited to 512 levels; duplicate keys: the last one wins.
Result<Value> parse_json(std::string_view text, const std::string& name = "json");

// Compact, on one line, UTF-8; invalid bytes are replaced by U+FFFD. Non-finite numbers are written as null.
std::string to_json(const Value& value);
// Indented by two spaces, with a newline at the end.
std::string to_json_pretty(const Value& value);

}  // namespace longhaul
