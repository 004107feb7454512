#include "orchestrator/cli/commands/question_arguments.h"

#include <charconv>
#include <cmath>
#include <optional>

#include "base/files/files.h"
#include "base/text/text.h"
#include "base/toml.h"
#include "orchestrator/workflow/source/overrides.h"

namespace longhaul {
namespace {

constexpr std::size_t question_bytes_max = 1 << 20;

const FieldInfo* question_field(const std::vector<FieldInfo>& fields, const std::vector<std::string>& path,
                                std::size_t depth = 0) {
  for (const FieldInfo& field : fields) {
    if (field.name != path[depth]) continue;
    return depth + 1 == path.size() ? &field : question_field(field.members, path, depth + 1);
  }
  return nullptr;
}

// "8B" = 8e9, "0.5T", "70M", "300K".
std::optional<double> counted(const std::string& text) {
  if (text.size() < 2) return std::nullopt;
  double unit = 0;
  switch (text.back()) {
    case 'K':
    case 'k': unit = 1e3; break;
    case 'M': unit = 1e6; break;
    case 'B':
    case 'G': unit = 1e9; break;
    case 'T': unit = 1e12; break;
    default: return std::nullopt;
  }
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size() - 1, number);
  if (error != std::errc() || end != text.data() + text.size() - 1) return std::nullopt;
  return number * unit;
}

Value argument_value(const std::string& text, const FieldInfo* field) {
  const std::string type = field ? field->type : "";
  const bool number = type == "number" || type == "integer";
  if (const auto count = number ? counted(text) : std::nullopt)
    return type == "integer" ? Value(static_cast<long long>(std::llround(*count))) : Value(*count);
  const std::string written = starts_with(type, "list") && !starts_with(text, "[") ? "[" + text + "]" : text;
  const auto parsed = parse_toml("x = " + written + "\n", "");
  if (parsed.ok() && parsed->size() == 1 && parsed->find("x")) {
    const Value& value = *parsed->find("x");
    const double whole = value.is_number() ? value.as_number() : 0.5;
    if (type == "integer" && !value.is_integer() && whole == std::floor(whole) && std::fabs(whole) < 9e15)
      return Value(static_cast<long long>(whole));  // 1e9
    return value;
  }
  if (!starts_with(type, "list")) return Value(text);
  Value list = Value::make_array();
  for (const std::string& part : split(text, ',')) list.push_back(trim(part));
  return list;
}

void place_at(Value& value, const SourcePos& where) {
  value.pos = where;
  if (value.is_array())
    for (Value& element : value.as_array()) place_at(element, where);
}

}  // namespace

Value question_value(const std::string& file, const std::vector<std::string>& arguments,
                     const std::vector<FieldInfo>& fields, Diagnostics& diagnostics) {
  Value question = Value::make_table();
  if (!file.empty()) {
    const auto text = read_file(file, question_bytes_max);
    auto parsed = text.ok() ? parse_toml(*text, file) : Result<Value>(text.error());
    if (parsed.ok())
      question = std::move(parsed).value();
    else
      diagnostics.add(parsed.error());
  }
  for (const std::string& argument : arguments) {
    const SourcePos where{argument, 0, 0};
    const std::size_t equals = argument.find('=');
    const std::vector<std::string> path = split(trim(argument.substr(0, equals)), '.');
    bool named = equals != std::string::npos && equals > 0;
    for (const std::string& part : path) named = named && !part.empty();
    if (!named) {
      diagnostics.add(where, "'" + argument + "' is not KEY=VALUE");
      continue;
    }
    Value value = argument_value(trim(argument.substr(equals + 1)), question_field(fields, path));
    place_at(value, where);
    set_at_path(question, path, value, where);
  }
  return question;
}

}  // namespace longhaul
