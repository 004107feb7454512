// Code points and their bytes; both functions expect what their names say and check nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace longhaul {

inline void append_utf8(std::string& out, std::uint32_t c) {
  const auto push = [&](std::uint32_t byte) { out += static_cast<char>(byte); };
  if (c < 0x80) {
    push(c);
  } else if (c < 0x800) {
    push(0xC0 | c >> 6);
    push(0x80 | (c & 63));
  } else if (c < 0x10000) {
    push(0xE0 | c >> 12);
    push(0x80 | (c >> 6 & 63));
    push(0x80 | (c & 63));
  } else {
    push(0xF0 | c >> 18);
    push(0x80 | (c >> 12 & 63));
    push(0x80 | (c >> 6 & 63));
    push(0x80 | (c & 63));
  }
}

struct CodePoint {
  std::uint32_t value = 0;
  std::uint32_t length = 1;  // bytes
};
// The code point that starts at `at` in valid UTF-8; at < text.size().
inline CodePoint read_utf8(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint32_t>(static_cast<unsigned char>(text[at + i])); };
  const std::uint32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xE0) return {(lead & 31) << 6 | (byte(1) & 63), 2};
  if (lead < 0xF0) return {(lead & 15) << 12 | (byte(1) & 63) << 6 | (byte(2) & 63), 3};
  return {(lead & 7) << 18 | (byte(1) & 63) << 12 | (byte(2) & 63) << 6 | (byte(3) & 63), 4};
}

// Length in bytes of the longest valid UTF-8 prefix of `text` (Unicode 16, table 3-7: no overlong forms, no
// surrogates).
std::size_t valid_utf8_prefix(std::string_view text);

}  // namespace longhaul
