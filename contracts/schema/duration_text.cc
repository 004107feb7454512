#include "contracts/schema/duration_text.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <vector>

#include "base/text/text.h"

namespace longhaul {
namespace {

std::optional<std::int64_t> digits(const std::string& text) {
  constexpr std::size_t digits_max = 9;
  if (text.empty() || text.size() > digits_max ||
      !std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c); }))
    return std::nullopt;
  std::int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// "MM:SS", the one form with a colon whose unit is not plain.
std::optional<std::pair<std::int64_t, std::int64_t>> two_numbers(const std::string& text) {
  const auto parts = split(text, ':');
  if (parts.size() != 2) return std::nullopt;
  const auto first = digits(parts[0]), second = digits(parts[1]);
  if (!first || !second) return std::nullopt;
  return std::pair(*first, *second);
}

std::optional<double> slurm_time(const std::string& text) {
  const std::size_t dash = text.find('-');
  std::int64_t days = 0;
  if (dash != std::string::npos) {
    const auto written = digits(text.substr(0, dash));
    if (!written) return std::nullopt;
    days = *written;
  }
  const auto parts = split(dash == std::string::npos ? text : text.substr(dash + 1), ':');
  if (parts.empty() || parts.size() > 3 || (dash == std::string::npos && parts.size() < 3)) return std::nullopt;
  std::int64_t of_day[3] = {0, 0, 0};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto number = digits(parts[i]);
    if (!number || (i > 0 && *number > 59)) return std::nullopt;
    of_day[i] = *number;
  }
  if (dash != std::string::npos && of_day[0] > 23) return std::nullopt;
  return static_cast<double>(((days * 24 + of_day[0]) * 60 + of_day[1]) * 60 + of_day[2]);
}

}  // namespace

std::optional<double> duration_setting(const std::string& text) {
  if (const auto seconds = parse_duration_seconds(text)) return seconds;
  return slurm_time(trim(text));
}

std::string duration_remedy(const std::string& text) {
  const std::string written = trim(text);
  if (digits(written))
    return format("it lacks its unit: write \"{}min\" (which Slurm takes it for), \"{}s\" or \"{}h\"", written, written,
                  written);
  if (const auto numbers = two_numbers(written))
    return format("write \"{}min\" (which Slurm takes it for, with {} s), or \"{:02}:{:02}:00\" for hours",
                  numbers->first, numbers->second, numbers->first, numbers->second);
  const std::size_t behind = written.find_first_not_of("0123456789.");
  if (behind != std::string::npos && behind > 0) {
    const std::string number = written.substr(0, behind), unit = trim(written.substr(behind));
    for (const char* known : {"seconds", "minutes", "hours", "days", "secs", "mins", "hrs", "hour", "minute", "day"})
      if (unit == known) {
        const std::string short_unit = unit[0] == 'm' ? "min" : std::string(1, unit[0]);
        if (parse_duration_seconds(number + short_unit)) return format("write \"{}{}\"", number, short_unit);
      }
  }
  return "for example \"45s\", \"30min\", \"12h\" or Slurm's \"1-12:00:00\"";
}

}  // namespace longhaul
