#include "base/value/json_limits.h"

#include <algorithm>

namespace longhaul {
namespace {

constexpr std::size_t bytes_per_byte = 50, bytes_besides = 4096;
constexpr std::size_t depth_max = 512;  // as the parser's; what is deeper is refused there
constexpr std::size_t heap_block = 16;  // an allocation costs up to so much more than what was asked for

// The end of the string that begins at `at`, a quote; the end of the text where it never ends.
std::size_t past_string(std::string_view text, std::size_t at) {
  for (++at; at < text.size(); ++at) {
    if (text[at] == '\\')
      ++at;
    else if (text[at] == '"')
      return at + 1;
  }
  return text.size();
}

struct Open {
  std::size_t index;  // in children
  bool is_table;
};

}  // namespace

JsonLimits default_json_limits(std::size_t text_bytes) {
  return {text_bytes + 1, bytes_per_byte * text_bytes + bytes_besides};
}

JsonOutline outline_of_json(std::string_view text) {
  JsonOutline outline;
  outline.children.reserve(
      static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return c == '[' || c == '{'; })));
  std::vector<Open> open;
  std::size_t elements = 0, members = 0, text_in_strings = 0;
  char before = ' ';  // the last byte that is no white space
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '"') {
      const std::size_t end = past_string(text, at);
      text_in_strings += end - at > heap_block ? 2 * (end - at) + heap_block : 0;  // shorter ones need no memory
      at = end, before = '"';
      continue;
    }
    ++at;
    if (c == ' ' || c == '\n' || c == '\r' || c == '\t') continue;
    if (c == '[' || c == '{') {
      if (open.size() == depth_max) break;
      open.push_back({outline.children.size(), c == '{'});
      outline.children.push_back(0);
    } else if (c == ',' || c == ']' || c == '}') {
      const bool nothing_yet = before == '[' || before == '{';
      if (open.empty() || before == ',' || (c == ',' && nothing_yet)) break;  // no JSON
      if (!nothing_yet) {
        ++outline.children[open.back().index];
        ++(open.back().is_table ? members : elements);
      }
      if (c != ',') open.pop_back();
    }
    before = c;
  }
  outline.values = 1 + elements + members;
  outline.bytes = sizeof(Value) * (1 + elements) + (sizeof(ValueMember) + json_member_extra_bytes) * members +
                  (heap_block + sizeof(std::uint32_t)) * outline.children.size() + text_in_strings;
  return outline;
}

}  // namespace longhaul
