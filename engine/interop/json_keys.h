// Keys that stand twice in one object of a JSON text. A reader that takes the last one, or the first, loads something
// that another reader would not.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace longhaul {

// The first key that comes twice within one object, as it is written; nullopt: none. `json` must be valid JSON.
std::optional<std::string> doubled_json_key(std::string_view json);

}  // namespace longhaul
