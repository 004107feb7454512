#include "contracts/schema/type_remedy.h"

#include <cctype>
#include <charconv>
#include <cmath>
#include <optional>

#include "base/text/text.h"
#include "contracts/schema/duration_text.h"

namespace longhaul {
namespace {

constexpr std::size_t value_shown_max = 60;
constexpr double exact_integers_max = 9e15;  // whole numbers that a double holds exactly

std::string line(const FieldInfo& info, const std::string& value) {
  return info.name.empty() ? "write " + value : "write " + info.name + " = " + value;
}

// "20", "1e5", "1_000" as a number.
std::optional<double> number_in(std::string text) {
  text = trim(text);
  std::erase(text, '_');
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || !std::isfinite(number))
    return std::nullopt;
  return number;
}

std::string for_integer(const FieldInfo& info, const Value& value) {
  const auto number = value.is_number()   ? std::optional(value.as_number())
                      : value.is_string() ? number_in(value.as_string())
                                          : std::nullopt;
  if (!number || std::fabs(*number) > exact_integers_max) return {};
  if (*number != std::floor(*number))
    return line(info, format("{:.0f}", std::floor(*number))) + ": it is a whole number";
  return line(info, format("{:.0f}", *number)) + (value.is_string() ? ", without quotes" : "");
}

std::string for_number(const FieldInfo& info, const Value& value) {
  if (!value.is_string() || !number_in(value.as_string())) return {};
  return line(info, trim(value.as_string())) + ", without quotes";
}

std::string in_small_letters(const std::string& text) {
  std::string small;
  for (const unsigned char c : text) small += static_cast<char>(std::tolower(c));
  return small;
}

std::string for_yes_no(const FieldInfo& info, const Value& value) {
  const std::string text = value.is_string()    ? in_small_letters(trim(value.as_string()))
                           : value.is_integer() ? std::to_string(value.as_integer())
                                                : "";
  for (const char* yes : {"yes", "true", "on", "1", "y"})
    if (text == yes) return line(info, "true");
  for (const char* no : {"no", "false", "off", "0", "n"})
    if (text == no) return line(info, "false");
  return line(info, "true") + " or false";
}

// As TOML has a value that is short.
std::string shown(const Value& value) {
  if (!value.is_string() && !value.is_number() && !value.is_bool()) return {};
  const std::string text = field_detail::default_text(value);
  return text.size() <= value_shown_max ? text : "";
}

std::string for_text(const FieldInfo& info, const Value& value) {
  const std::string text = value.is_string() ? "" : shown(value);
  return text.empty() ? "" : line(info, "\"" + text + "\"") + ", in quotes";
}

// A command line as the list of its words.
std::string for_argv(const FieldInfo& info, const std::string& command) {
  std::string words;
  for (const std::string& word : split(command, ' '))
    if (!word.empty()) words += (words.empty() ? "" : ", ") + field_detail::default_text(Value(word));
  return line(info, "[" + words + "]");
}

std::string for_list(const FieldInfo& info, const Value& value) {
  const std::string text = shown(value);
  if (text.empty()) return {};
  if (info.name == "argv" && value.is_string()) return for_argv(info, value.as_string());
  const bool of_text = info.type == "list of text";
  if (of_text) return line(info, value.is_string() ? "[" + text + "]" : "[\"" + text + "\"]");
  if (!value.is_string()) return line(info, "[" + text + "]");
  return number_in(value.as_string()) ? line(info, "[" + trim(value.as_string()) + "]") : "";
}

std::string for_size(const Value& value) {
  if (!value.is_number()) return "for example \"512MiB\", \"16GiB\"";
  const std::string number = format("{:g}", value.as_number());
  return format("it lacks its unit: write \"{}MB\", \"{}GB\" or \"{}GiB\"", number, number, number);
}

std::string guessed(const FieldInfo& info, const Value& value) {
  if (info.type == "integer") return for_integer(info, value);
  if (info.type == "number") return for_number(info, value);
  if (info.type == "yes/no") return for_yes_no(info, value);
  if (info.type == "text") return for_text(info, value);
  if (info.type == "size") return for_size(value);
  if (info.type == "duration")
    return duration_remedy(value.is_number() ? format("{:.15g}", value.as_number()) : std::string());
  if (starts_with(info.type, "list")) return for_list(info, value);
  return {};
}

}  // namespace

std::string type_text(const Value& value) {
  if (value.is_string()) return "text";
  if (value.is_bool()) return "yes/no";
  if (value.is_array()) return "a list";
  if (value.is_table()) return "a table";
  return value.kind_name();
}

std::string type_remedy(const FieldInfo& info, const Value& value) {
  if (std::string remedy = guessed(info, value); !remedy.empty()) return remedy;
  if (info.default_text.empty() || info.name.empty()) return {};
  return "for example " + info.name + " = " + info.default_text;
}

}  // namespace longhaul
