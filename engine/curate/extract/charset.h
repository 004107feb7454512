// Which characters the bytes of a page mean.
#pragma once

#include <string>
#include <string_view>

namespace longhaul {

struct DecodedText {
  std::string text;     // valid UTF-8, without byte order mark
  std::string charset;  // what the bytes were taken for
};

// Is this text in UTF-16: by its byte order mark, or since most of every second byte is zero (text of Latin letters)?
bool is_wide(std::string_view bytes);

// In this order: a byte order mark; UTF-16 without one; UTF-8 where the bytes are valid UTF-8; the charset that an HTML
// <meta> names in the first 4096 bytes; UTF-8 with repairs where most non-ASCII bytes are well formed; windows-1252.
// Never fails: bytes that mean nothing become U+FFFD.
DecodedText decode_bytes(std::string_view bytes, bool is_html);

}  // namespace longhaul
