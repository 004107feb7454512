// How much memory a JSON text may become. A text of strangers decides how many values it has; who reads it decides how
// many are taken. What a text would need is counted before the first value is made, in one pass over its bytes, so a
// refusal costs no memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/value/value.h"

namespace longhaul {

// Besides a member itself, while a table is looked through for keys that repeat.
inline constexpr std::size_t json_member_extra_bytes = 16;

struct JsonLimits {
  std::size_t values_max = 0;  // scalars, arrays and tables together
  std::size_t bytes_max = 0;   // of the tree of values and what it takes to build it
};

// What parse_json(text, name) keeps to: 50 bytes for each byte of the text, and 4 KiB. No text needs more: two bytes
// ("0,") make a value of 64 bytes, and arrays have room for exactly what they hold.
JsonLimits default_json_limits(std::size_t text_bytes);

// What a text would become. For text that is no JSON: of what was read until that showed, and never more than its
// length allows.
struct JsonOutline {
  std::vector<std::uint32_t> children;  // of each array and table, in the order in which they begin
  std::size_t values = 0, bytes = 0;    // as the limits count them
};
JsonOutline outline_of_json(std::string_view text);

// As parse_json of base/value/json.h, within other limits. A text that exceeds them is `corrupt`; the error says how
// much it would take and how much it may.
Result<Value> parse_json(std::string_view text, const std::string& name, const JsonLimits& limits);

}  // namespace longhaul
