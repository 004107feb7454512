#include "engine/curate/extract/charset.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "base/text/text.h"
#include "engine/curate/extract/unicode.h"

namespace longhaul {
namespace {

// The value behind "charset=" in the head of a page; browsers look at 1024 bytes, some pages need more.
std::string declared_charset(std::string_view bytes) {
  std::string head(bytes.substr(0, 4096));
  std::transform(head.begin(), head.end(), head.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const char* key :
       {"charset", "encoding"}) {  // <meta charset=...>, <meta content="...; charset=...">, <?xml encoding=...?>
    for (std::size_t at = head.find(key); at != std::string::npos; at = head.find(key, at + 1)) {
      std::size_t i = at + std::string_view(key).size();
      while (i < head.size() && head[i] == ' ') ++i;
      if (i >= head.size() || head[i] != '=') continue;
      ++i;
      while (i < head.size() && (head[i] == ' ' || head[i] == '"' || head[i] == '\'')) ++i;
      std::string name;
      while (i < head.size() && name.size() < 40 &&
             (std::isalnum(static_cast<unsigned char>(head[i])) ||
              std::string_view("-_:.").find(head[i]) != std::string_view::npos)) {
        name += head[i++];
      }
      if (!name.empty()) return name;
    }
  }
  return {};
}

// Share of the non-ASCII bytes that stand in well-formed sequences.
double utf8_share(std::string_view bytes) {
  std::size_t high = 0, well_formed = 0;
  for (std::size_t pos = 0; pos < bytes.size();) {
    const std::size_t start = pos;
    const char32_t c = next_code_point(bytes, pos);
    if (static_cast<unsigned char>(bytes[start]) < 0x80) continue;
    high += pos - start;
    if (c != 0xFFFD) well_formed += pos - start;
  }
  return high == 0 ? 1.0 : static_cast<double>(well_formed) / static_cast<double>(high);
}

// Zero bytes at even and at odd places of the first 4096 bytes, as shares of these places.
std::pair<double, double> zero_shares(std::string_view bytes) {
  const std::string_view head = bytes.substr(0, std::min<std::size_t>(bytes.size(), 4096) & ~std::size_t{1});
  double even = 0, odd = 0;
  for (std::size_t i = 0; i < head.size(); ++i) (i % 2 == 0 ? even : odd) += head[i] == '\0';
  const double places = std::max(1.0, static_cast<double>(head.size()) / 2);
  return {even / places, odd / places};
}

}  // namespace

bool is_wide(std::string_view bytes) {
  if (starts_with(bytes, "\xFF\xFE") || starts_with(bytes, "\xFE\xFF")) return true;
  if (bytes.size() < 16) return false;
  const auto [even, odd] = zero_shares(bytes);
  return std::max(even, odd) > 0.6 && std::min(even, odd) < 0.1;
}

DecodedText decode_bytes(std::string_view bytes, bool is_html) {
  if (starts_with(bytes, "\xEF\xBB\xBF")) return {repair_utf8(bytes.substr(3)), "utf-8"};
  if (starts_with(bytes, "\xFF\xFE")) return {convert_to_utf8(bytes.substr(2), "utf-16le"), "utf-16le"};
  if (starts_with(bytes, "\xFE\xFF")) return {convert_to_utf8(bytes.substr(2), "utf-16be"), "utf-16be"};
  if (is_wide(bytes)) {
    const char* charset = zero_shares(bytes).first > 0.5 ? "utf-16be" : "utf-16le";
    return {convert_to_utf8(bytes, charset), charset};
  }
  std::string declared = is_html ? declared_charset(bytes) : std::string();
  // ISO-2022-JP and its like are ASCII bytes that mean something else.
  if (is_valid_utf8(bytes) && !starts_with(declared, "iso-2022")) return {std::string(bytes), "utf-8"};
  if (declared == "iso-8859-1" || declared == "latin1" || declared == "us-ascii")
    declared = "windows-1252";  // as browsers do
  const bool says_utf8 = declared == "utf-8" || declared == "utf8";
  if (!declared.empty() && !says_utf8 && !starts_with(declared, "utf-16") && is_known_charset(declared)) {
    return {convert_to_utf8(bytes, declared), declared};
  }
  if (utf8_share(bytes) >= 0.5) return {repair_utf8(bytes), "utf-8"};
  return {convert_to_utf8(bytes, "windows-1252"), "windows-1252"};
}

}  // namespace longhaul
