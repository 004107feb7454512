// Room base
// TOML text to a tree of values with positions, and back; toml.cc alone includes the TOML library. yaml.h does it for
// YAML, to read only.
// Everything else of base is in its rooms: start with error/result.h, value/value.h, text/text.h, files/files.h.
// No terms of the domain anywhere in base: it depends on system libraries only, and everything else depends on it.
//
// TOML text to Value with positions, and back. The only file that knows the TOML library is toml.cc.
#pragma once

#include <string>
#include <string_view>

#include "base/value/value.h"

namespace longhaul {

// Parses one document; every key and value of the result knows its line and column in `file_name`. Stops at the first
// syntax error, as the library does. Dates and times become strings.
Result<Value> parse_toml(std::string_view text, const std::string& file_name);
Result<Value> read_toml_file(const std::string& path);

// Writes a table as TOML: scalars and arrays first, then sub-tables as [a.b] sections; arrays of tables inline. Null
// members are left out; invalid UTF-8 becomes U+FFFD. Reading it back gives an equal Value where scalars stood before
// sub-tables already (nulls aside).
std::string to_toml(const Value& table);

}  // namespace longhaul
