#include "base/toml.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <sstream>

#define TOML_EXCEPTIONS 1
#include <toml++/toml.h>

#include "base/files/files.h"
#include "base/text/text.h"

namespace longhaul {
namespace {

SourcePos position_of(const toml::source_region& region, const SharedText& file) {
  return SourcePos{file, static_cast<int>(region.begin.line), static_cast<int>(region.begin.column)};
}

Value convert(const toml::node& node, const SharedText& file) {
  Value value;
  switch (node.type()) {
    case toml::node_type::table: {
      value = Value::make_table();
      // toml++ keeps tables sorted; a reader wants the order written.
      for (const auto& [key, child] : *node.as_table()) {
        ValueMember member{std::string(key.str()), convert(child, file), position_of(key.source(), file)};
        value.as_table().push_back(std::move(member));
      }
      auto& members = value.as_table();
      std::stable_sort(members.begin(), members.end(), [](const ValueMember& a, const ValueMember& b) {
        return std::pair(a.key_pos.line, a.key_pos.column) < std::pair(b.key_pos.line, b.key_pos.column);
      });
      break;
    }
    case toml::node_type::array:
      value = Value::make_array();
      for (const auto& child : *node.as_array()) value.push_back(convert(child, file));
      break;
    case toml::node_type::string: value = Value(node.as_string()->get()); break;
    case toml::node_type::integer: value = Value(static_cast<long long>(node.as_integer()->get())); break;
    case toml::node_type::floating_point: value = Value(node.as_floating_point()->get()); break;
    case toml::node_type::boolean: value = Value(node.as_boolean()->get()); break;
    default: {
      std::ostringstream text;
      node.visit([&](const auto& typed) {
        if constexpr (!toml::is_container<decltype(typed)>) text << typed.get();
      });
      value = Value(text.str());
    }
  }
  value.pos = position_of(node.source(), file);
  return value;
}

bool is_bare_key(const std::string& key) {
  if (key.empty()) return false;
  for (char c : key)
    if (!(std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-')) return false;
  return true;
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (unsigned char c : is_valid_utf8(text) ? text : repair_utf8(text)) {
    switch (c) {
      case '"': out += "\\\""; break;
      case '\\': out += "\\\\"; break;
      case '\n': out += "\\n"; break;
      case '\t': out += "\\t"; break;
      case '\r': out += "\\r"; break;
      default:
        if (c < 0x20 || c == 0x7f) {
          char escaped[8];
          std::snprintf(escaped, sizeof escaped, "\\u%04X", c);
          out += escaped;
        } else {
          out += static_cast<char>(c);
        }
    }
  }
  return out + '"';
}

std::string key_text(const std::string& key) {
  return is_bare_key(key) ? key : quoted(key);
}

std::string number_text(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
  char text[40];
  std::snprintf(text, sizeof text, "%.17g", number);
  for (int digits = 1; digits < 17; ++digits) {  // the shortest text that reads back as the same number
    char shorter[40];
    std::snprintf(shorter, sizeof shorter, "%.*g", digits, number);
    if (std::strtod(shorter, nullptr) == number) {
      std::snprintf(text, sizeof text, "%s", shorter);
      break;
    }
  }
  std::string out = text;
  if (out.find_first_of(".en") == std::string::npos) out += ".0";
  return out;
}

void append_inline(std::string& out, const Value& value) {
  switch (value.kind()) {
    case Value::Kind::null: out += "\"\""; return;
    case Value::Kind::boolean: out += value.as_bool() ? "true" : "false"; return;
    case Value::Kind::integer: out += std::to_string(value.as_integer()); return;
    case Value::Kind::number: out += number_text(value.as_number()); return;
    case Value::Kind::string: out += quoted(value.as_string()); return;
    case Value::Kind::array: {
      out += '[';
      for (std::size_t i = 0; i < value.size(); ++i) {
        if (i > 0) out += ", ";
        append_inline(out, value.as_array()[i]);
      }
      out += ']';
      return;
    }
    case Value::Kind::table: {
      out += "{ ";
      bool first = true;
      for (const ValueMember& member : value.as_table()) {
        if (member.value.is_null()) continue;
        if (!first) out += ", ";
        first = false;
        out += key_text(member.key) + " = ";
        append_inline(out, member.value);
      }
      out += " }";
      return;
    }
  }
}

void append_section(std::string& out, const Value& table, const std::string& prefix) {
  for (const ValueMember& member : table.as_table()) {
    if (member.value.is_null() || member.value.is_table()) continue;
    out += key_text(member.key) + " = ";
    append_inline(out, member.value);
    out += '\n';
  }
  for (const ValueMember& member : table.as_table()) {
    if (!member.value.is_table()) continue;
    const std::string name = prefix.empty() ? key_text(member.key) : prefix + "." + key_text(member.key);
    if (!out.empty()) out += '\n';
    out += "[" + name + "]\n";
    append_section(out, member.value, name);
  }
}

}  // namespace

Result<Value> parse_toml(std::string_view text, const std::string& file_name) {
  try {
    const toml::table table = toml::parse(text, file_name);
    return convert(table, SharedText(file_name));
  } catch (const toml::parse_error& problem) {
    Error error =
        make_error(ErrorCode::invalid_input, std::string("TOML syntax: ") + std::string(problem.description()),
                   "nothing after this place was read");
    error.where = position_of(problem.source(), file_name);
    return error;
  } catch (const std::exception& problem) {
    return make_error(ErrorCode::invalid_input, file_name + ": " + problem.what());
  }
}

Result<Value> read_toml_file(const std::string& path) {
  LH_TRY(const std::string text, read_file(path));
  return parse_toml(text, path);
}

std::string to_toml(const Value& table) {
  std::string out;
  append_section(out, table, "");
  return out;
}

}  // namespace longhaul
