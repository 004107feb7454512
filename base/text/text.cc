#include "base/text/text.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace longhaul {

std::string human_bytes(double bytes) {
  static constexpr const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  int unit = 0;
  // 1023.95 would be printed as 1024.0 of the smaller unit.
  while (std::abs(bytes) >= (unit == 0 ? 1023.5 : 1023.95) && unit < 5) bytes /= 1024, ++unit;
  return unit == 0 ? format("{:.0f} {}", bytes, units[unit]) : format("{:.1f} {}", bytes, units[unit]);
}

std::string human_count(double count) {
  static constexpr const char* units[] = {"", " K", " M", " B", " T"};
  int unit = 0;
  while (std::abs(count) >= 999.5 && unit < 4) count /= 1000, ++unit;
  return unit == 0 ? format("{:.0f}", count) : format("{:.3g}{}", count, units[unit]);
}

std::string human_duration(double seconds) {
  if (seconds < 59.95) return format("{:.1f}s", seconds);
  const auto whole = static_cast<std::int64_t>(std::llround(seconds));
  if (whole < 3600) return format("{}m {:02}s", whole / 60, whole % 60);
  if (whole < 86400) return format("{}h {:02}m", whole / 3600, whole / 60 % 60);
  return format("{}d {:02}h", whole / 86400, whole / 3600 % 24);
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  std::size_t start = 0;
  for (;;) {
    const std::size_t end = text.find(separator, start);
    parts.emplace_back(text.substr(start, end == std::string_view::npos ? end : end - start));
    if (end == std::string_view::npos) return parts;
    start = end + 1;
  }
}

std::string trim(std::string_view text) {
  const char* blank = " \t\r\n\f\v";
  const std::size_t first = text.find_first_not_of(blank);
  if (first == std::string_view::npos) return {};
  return std::string(text.substr(first, text.find_last_not_of(blank) - first + 1));
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string out;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) out += separator;
    out += parts[i];
  }
  return out;
}

bool starts_with(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}
bool ends_with(std::string_view text, std::string_view suffix) {
  return text.size() >= suffix.size() && text.substr(text.size() - suffix.size()) == suffix;
}

std::string replace_all(std::string text, std::string_view from, std::string_view to) {
  if (from.empty()) return text;
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

std::string html_escape(std::string_view text) {
  std::string out;
  for (char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  }
  return out;
}

std::string shell_quote(std::string_view text) {
  std::string out = "'";
  for (char c : text) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      out += c;
    }
  }
  return out + "'";
}

std::string shell_quoted(std::string_view text) {
  const auto is_plain = [](unsigned char c) {
    return (std::isalnum(c) && c < 128) ||
           std::string_view("_-./:=,@%+").find(static_cast<char>(c)) != std::string_view::npos;
  };
  return !text.empty() && std::all_of(text.begin(), text.end(), is_plain) ? std::string(text) : shell_quote(text);
}

namespace {
// Length of the well-formed sequence at `i` (Unicode 15, table 3-7), or 0; `bad` is then the length of the maximal
// ill-formed part.
std::size_t utf8_length(std::string_view s, std::size_t i, std::size_t& bad) {
  const auto byte = [&](std::size_t k) { return k < s.size() ? static_cast<unsigned char>(s[k]) : 0; };
  const unsigned b0 = byte(i);
  bad = 1;
  if (b0 < 0x80) return 1;
  if (b0 < 0xC2 || b0 > 0xF4) return 0;
  unsigned low = 0x80, high = 0xBF;
  if (b0 == 0xE0) low = 0xA0;
  if (b0 == 0xED) high = 0x9F;
  if (b0 == 0xF0) low = 0x90;
  if (b0 == 0xF4) high = 0x8F;
  const std::size_t length = b0 < 0xE0 ? 2 : b0 < 0xF0 ? 3 : 4;
  for (std::size_t k = 1; k < length; ++k) {
    const unsigned b = byte(i + k);
    if (i + k >= s.size() || b < low || b > high) {
      bad = k;
      return 0;
    }
    low = 0x80, high = 0xBF;
  }
  return length;
}

// Where the row of ASCII that starts at `i` ends: eight bytes at a time.
std::size_t ascii_end(std::string_view s, std::size_t i) {
  for (std::uint64_t eight = 0; i + sizeof eight <= s.size(); i += sizeof eight) {
    std::memcpy(&eight, s.data() + i, sizeof eight);
    if (eight & 0x8080808080808080ULL) break;
  }
  while (i < s.size() && static_cast<unsigned char>(s[i]) < 0x80) ++i;
  return i;
}
}  // namespace

bool is_valid_utf8(std::string_view text) {
  std::size_t bad = 0;
  for (std::size_t i = ascii_end(text, 0); i < text.size(); i = ascii_end(text, i)) {
    const std::size_t n = utf8_length(text, i, bad);
    if (n == 0) return false;
    i += n;
  }
  return true;
}

std::string repair_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  std::size_t bad = 0;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t n = utf8_length(text, i, bad);
    if (n > 0) {
      out.append(text, i, n);
      i += n;
    } else {
      out += "\xEF\xBF\xBD";
      i += bad;
    }
  }
  return out;
}

namespace {
struct Unit {
  std::string_view name;
  double factor;
};
std::optional<double> parse_with_units(std::string_view text, const Unit* units, std::size_t count) {
  const std::string copy = trim(text);
  char* end = nullptr;
  const double number = std::strtod(copy.c_str(), &end);
  if (end == copy.c_str() || !std::isfinite(number) || number < 0) return {};
  const std::string unit = trim(end);
  for (std::size_t i = 0; i < count; ++i)
    if (unit == units[i].name) return number * units[i].factor;
  return {};
}
}  // namespace

std::optional<double> parse_duration_seconds(std::string_view text) {
  static constexpr Unit units[] = {{"ms", 1e-3}, {"s", 1},    {"sec", 1},  {"min", 60},
                                   {"m", 60},    {"h", 3600}, {"d", 86400}};
  return parse_with_units(text, units, std::size(units));
}

std::optional<std::int64_t> parse_bytes(std::string_view text) {
  static constexpr Unit units[] = {
      {"B", 1},    {"KiB", 1024}, {"MiB", 1048576}, {"GiB", 1073741824.0}, {"TiB", 1099511627776.0},
      {"KB", 1e3}, {"MB", 1e6},   {"GB", 1e9},      {"TB", 1e12}};
  const auto bytes = parse_with_units(text, units, std::size(units));
  if (!bytes || *bytes > 9e18) return {};
  return static_cast<std::int64_t>(std::llround(*bytes));
}

}  // namespace longhaul
