#include "base/text/visible_text.h"

#include <algorithm>
#include <cstdint>

#include "base/text/text.h"

namespace longhaul {
namespace {

bool stays_as_it_is(char c) {
  return c >= 0x20 && c < 0x7f;  // bytes above are negative here where char is signed, and larger where it is not
}

bool gives_orders(std::uint32_t c) {
  return c < 0x20 || (c >= 0x7f && c <= 0x9f) || c == 0x61c || c == 0x200e || c == 0x200f ||
         (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

struct Character {
  std::uint32_t point;
  std::size_t length;  // in bytes; 0: no character begins here
};
// The first character of `text`, which is not empty.
Character first_character(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const std::size_t length = lead < 0x80 ? 1 : lead < 0xc0 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  if (length == 0 || length > text.size() || !is_valid_utf8(text.substr(0, length))) return {lead, 0};
  if (length == 1) return {lead, 1};
  std::uint32_t point = lead & (0x7fU >> length);
  for (std::size_t i = 1; i < length; ++i) point = point << 6 | (static_cast<unsigned char>(text[i]) & 0x3fU);
  return {point, length};
}

std::string escaped(std::string_view text, bool keeps_lines) {
  const auto stays = [&](char c) { return stays_as_it_is(c) || (keeps_lines && (c == '\n' || c == '\t')); };
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::find_if_not(text.begin() + static_cast<std::ptrdiff_t>(at), text.end(), stays);
    const auto stop = static_cast<std::size_t>(end - text.begin());
    out += text.substr(at, stop - at);
    if (stop == text.size()) break;
    const Character character = first_character(text.substr(stop));
    if (character.length == 0)
      out += format("\\x{:02x}", character.point);
    else if (gives_orders(character.point))
      out += format("\\u{:04x}", character.point);
    else
      out += text.substr(stop, character.length);
    at = stop + std::max<std::size_t>(character.length, 1);
  }
  return out;
}

}  // namespace

std::string visible(std::string_view text) {
  return escaped(text, true);
}

std::string visible_line(std::string_view text) {
  return escaped(text, false);
}

std::string visible_paragraph(std::string_view text) {
  return replace_all(visible(text), "\n", "\n    ");
}

}  // namespace longhaul
