#include "engine/data/jinja/values/jinja_text.h"

#include <algorithm>

#include "base/text/text.h"
#include "engine/data/jinja/values/jinja_value.h"
#include "engine/data/jinja/values/text_case.h"
#include "engine/data/tokenizer/utf8.h"

namespace longhaul {

bool is_python_space(std::uint32_t c) {
  if (c <= 0x20) return (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x20);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
         c == 0x202F || c == 0x205F || c == 0x3000;
}

std::vector<std::string> characters_of(std::string_view text) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = read_utf8(text, at).length;
    out.emplace_back(text.substr(at, length));
    at += length;
  }
  return out;
}

std::int64_t count_of_characters(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

std::string strip_text(std::string_view text, bool left, bool right, const std::optional<std::string>& which) {
  const std::vector<std::string> stripped = which ? characters_of(*which) : std::vector<std::string>();
  const auto goes = [&](std::size_t at, std::size_t length) {
    if (!which) return is_python_space(read_utf8(text, at).value);
    return std::find(stripped.begin(), stripped.end(), text.substr(at, length)) != stripped.end();
  };
  while (left && !text.empty()) {
    const std::size_t length = read_utf8(text, 0).length;
    if (!goes(0, length)) break;
    text.remove_prefix(length);
  }
  while (right && !text.empty()) {
    std::size_t at = text.size() - 1;
    while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
    if (!goes(at, text.size() - at)) break;
    text.remove_suffix(text.size() - at);
  }
  return std::string(text);
}

Result<std::string> quoted_as_python(std::string_view text) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const char quote = has_single && text.find('"') == std::string_view::npos ? '"' : '\'';
  std::string out(1, quote);
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint c = read_utf8(text, at);
    if (c.value == static_cast<std::uint32_t>(quote) || c.value == '\\')
      out += format("\\{}", static_cast<char>(c.value));
    else if (c.value == '\n')
      out += "\\n";
    else if (c.value == '\r')
      out += "\\r";
    else if (c.value == '\t')
      out += "\\t";
    else if (c.value < 0x20 || (c.value >= 0x7F && c.value < 0xA1) || c.value == 0xAD)
      out += format("\\x{:02x}", c.value);
    else if ((c.value > 0x7F && is_python_space(c.value)) || (c.value >= 0x200B && c.value <= 0x200F) ||
             (c.value >= 0x202A && c.value <= 0x202E) || (c.value >= 0x2060 && c.value <= 0x206F) ||
             (c.value >= 0xE000 && c.value <= 0xF8FF) || (c.value >= 0xFDD0 && c.value <= 0xFDEF) || c.value == 0xFEFF)
      out += format("\\u{:04x}", c.value);
    else if (c.value >= 0xE0000)
      return jinja_error("a list or table is printed that holds characters which Python writes by their numbers",
                         "use tojson");
    else
      out += text.substr(at, c.length);
    at += c.length;
  }
  return out + quote;
}

namespace {

bool is_ascii_text(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

// lower() and capitalize() of texts with letters that text_case.h knows.
Result<std::string> in_lower_case(const std::string& text, bool capital) {
  for (std::size_t at = 0; at < text.size(); at += read_utf8(text, at).length)
    if (!knows_case(read_utf8(text, at).value))
      return jinja_error("lower and capitalize of letters beyond Latin, Greek and Cyrillic are not done");
  std::string out = lower_case(text);
  const std::uint32_t first = read_utf8(text, 0).value;
  if (!capital || (first >= 0x80 && !has_case(first))) return out;
  if (first >= 0x80) return jinja_error("capitalize of a first letter beyond ASCII is not done");
  if (out[0] >= 'a' && out[0] <= 'z') out[0] = static_cast<char>(out[0] - 'a' + 'A');
  return out;
}

}  // namespace

Result<std::string> in_case(const std::string& text, TextCase wanted) {
  if ((wanted == TextCase::lower || wanted == TextCase::capital) && !is_ascii_text(text))
    return in_lower_case(text, wanted == TextCase::capital);
  std::string out;
  bool begun = false;  // within a word, or of the text
  for (const char c : text) {
    if (static_cast<unsigned char>(c) >= 0x80)
      return jinja_error("upper and title of letters beyond ASCII are not done");
    const bool upper = c >= 'A' && c <= 'Z', lower = c >= 'a' && c <= 'z';
    const bool to_upper =
        wanted == TextCase::upper || ((wanted == TextCase::title || wanted == TextCase::capital) && !begun);
    if (to_upper && lower)
      out += static_cast<char>(c - 'a' + 'A');
    else if (!to_upper && upper)
      out += static_cast<char>(c - 'A' + 'a');
    else
      out += c;
    begun = wanted == TextCase::title ? upper || lower : true;
  }
  return out;
}

}  // namespace longhaul
