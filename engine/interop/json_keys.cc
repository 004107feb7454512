#include "engine/interop/json_keys.h"

#include <unordered_set>
#include <vector>

#include "base/value/json.h"

namespace longhaul {

std::optional<std::string> doubled_json_key(std::string_view json) {
  std::vector<std::unordered_set<std::string>> open;  // the keys of each object that is not closed; empty sets of lists
  std::vector<bool> is_object;
  bool key_next = false;
  for (std::size_t at = 0; at < json.size(); ++at) {
    const char c = json[at];
    if (c == '{' || c == '[') {
      open.emplace_back();
      is_object.push_back(c == '{');
      key_next = c == '{';
    } else if ((c == '}' || c == ']') && !open.empty()) {
      open.pop_back();
      is_object.pop_back();
      key_next = false;
    } else if (c == ',') {
      key_next = !is_object.empty() && is_object.back();
    } else if (c == '"') {
      std::size_t end = at + 1;
      while (end < json.size() && json[end] != '"') end += json[end] == '\\' ? 2 : 1;
      if (key_next) {
        // The same key may be written with and without escapes.
        const Result<Value> key = parse_json(json.substr(at, end + 1 - at));
        if (key.ok() && key->is_string() && !open.back().insert(key->as_string()).second) return key->as_string();
        key_next = false;
      }
      at = end;
    }
  }
  return std::nullopt;
}

}  // namespace longhaul
