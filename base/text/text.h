// Room base/text
// Text: formatting, splitting, human units, quoting, and the only way to standard output.
// print.h writes to the terminal; visible_text.h escapes foreign control characters; redact.h hides secrets.
// It includes nothing of Longhaul, so that even base/error can use it.
//
// Small text helpers: fmt formatting, human units, splitting.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace longhaul {

using fmt::format;

std::string human_bytes(double bytes);       // "1.5 GiB"
std::string human_count(double count);       // "8.03 B", "124 M"
std::string human_duration(double seconds);  // "1h 02m", "3m 20s", "4.2s"
std::vector<std::string> split(std::string_view text, char separator);
std::string trim(std::string_view text);
std::string join(const std::vector<std::string>& parts, std::string_view separator);
bool starts_with(std::string_view text, std::string_view prefix);
bool ends_with(std::string_view text, std::string_view suffix);
std::string replace_all(std::string text, std::string_view from, std::string_view to);
std::string html_escape(std::string_view text);  // & < > " '
std::string shell_quote(std::string_view text);  // single quotes, safe for POSIX shells
// The same for a command that a person reads and types: quoted only where a shell would not take it as it is.
std::string shell_quoted(std::string_view text);

// Valid UTF-8 only (no surrogates, nothing above U+10FFFF, no overlong forms)?
bool is_valid_utf8(std::string_view text);
// Invalid bytes become U+FFFD, one per maximal ill-formed part.
std::string repair_utf8(std::string_view text);

// "30min" = 1800, "2h", "45s", "1d", "500ms"; a bare number has no unit and is refused (nullopt).
std::optional<double> parse_duration_seconds(std::string_view text);
// "16GiB", "512MiB", "1KiB", "100B" (binary units; KB/MB/GB are decimal); nullopt otherwise.
std::optional<std::int64_t> parse_bytes(std::string_view text);

}  // namespace longhaul
