#include "contracts/schema/field_table.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/text/text.h"
#include "base/toml.h"
#include "contracts/schema/duration_text.h"
#include "contracts/schema/key_advice.h"
#include "contracts/schema/type_remedy.h"

namespace longhaul {

void parse_fields(const std::vector<FieldSlot>& slots, const Value& table, const std::string& where, void* target,
                  Diagnostics& diagnostics, const std::vector<std::string>& ignored) {
  for (const ValueMember& member : table.as_table()) {
    const auto slot =
        std::find_if(slots.begin(), slots.end(), [&](const FieldSlot& s) { return s.info.name == member.key; });
    const std::string path = where.empty() ? member.key : where + "." + member.key;
    if (slot != slots.end()) {
      slot->set(slot->info, member.value, path, target, diagnostics);
    } else if (std::find(ignored.begin(), ignored.end(), member.key) == ignored.end()) {
      diagnostics.add(member.key_pos, "unknown key '" + member.key + "' in [" + where + "]",
                      unknown_key_hint(member.key, slots, ignored, where, table.get_string("kind")));
    }
  }
  for (const FieldSlot& slot : slots)
    if (slot.info.options.required && !table.find(slot.info.name))
      diagnostics.add(table.pos, where + "." + slot.info.name + " is missing", slot.info.options.help);
}

Value changed_part(Value value, const Value& otherwise) {
  if (value == otherwise) return {};
  if (!value.is_table() || !otherwise.is_table()) return value;
  for (const ValueMember& member : otherwise.as_table())
    if (!value.find(member.key)) return value;  // its absence says so
  Value changed = Value::make_table();
  for (ValueMember& member : value.as_table()) {
    const Value* before = otherwise.find(member.key);
    Value part = before ? changed_part(std::move(member.value), *before) : std::move(member.value);
    if (!part.is_null()) changed.set(member.key, std::move(part));
  }
  return changed;
}

namespace field_detail {
namespace {

void wrong_type(const FieldInfo& info, const Value& value, const std::string& path, Diagnostics& d) {
  d.add(value.pos, path + " is " + type_text(value) + ", expected " + info.type, type_remedy(info, value));
}

bool in_bounds(const FieldInfo& info, double number, const Value& value, const std::string& path, Diagnostics& d) {
  const auto& o = info.options;
  const bool right = std::isfinite(number) && (!o.min || number >= *o.min) && (!o.max || number <= *o.max);
  if (right) return true;
  std::string bounds = o.min && o.max ? format("between {:g} and {:g}", *o.min, *o.max)
                       : o.min        ? format("at least {:g}", *o.min)
                       : o.max        ? format("at most {:g}", *o.max)
                                      : std::string("a number");
  if (!o.unit.empty()) bounds += " " + o.unit;
  d.add(value.pos, format("{} = {:g} is out of bounds", path, number), "expected " + bounds);
  return false;
}

FieldInfo text_of_table(const std::string& key) {
  FieldInfo info;
  info.name = key;
  info.type = "text";
  return info;
}

template <class Element, class Check>
void store_list(const FieldInfo& info, const Value& value, const std::string& path, std::vector<Element>& out,
                Diagnostics& d, Check check) {
  if (!value.is_array()) return wrong_type(info, value, path, d);
  std::vector<Element> list;
  for (std::size_t i = 0; i < value.size(); ++i) {
    const Value& element = value.as_array()[i];
    if (!check(element, path + "[" + std::to_string(i) + "]", list)) return;
  }
  out = std::move(list);
}

template <class Number>
void store_numbers(const FieldInfo& info, const Value& value, const std::string& path,
                   std::map<std::string, Number>& out, Diagnostics& d) {
  if (!value.is_table()) return wrong_type(info, value, path, d);
  std::map<std::string, Number> map;
  FieldInfo single = info;
  single.type = type_name(static_cast<const Number*>(nullptr)), single.default_text.clear();
  const std::size_t before = d.size();
  for (const ValueMember& member : value.as_table()) {
    single.name = member.key;
    store(single, member.value, path + "." + member.key, map[member.key], d);
  }
  if (d.size() == before) out = std::move(map);
}

}  // namespace

void store(const FieldInfo& info, const Value& value, const std::string& path, bool& out, Diagnostics& d) {
  if (!value.is_bool()) return wrong_type(info, value, path, d);
  out = value.as_bool();
}
void store(const FieldInfo& info, const Value& value, const std::string& path, std::int64_t& out, Diagnostics& d) {
  if (!value.is_integer()) return wrong_type(info, value, path, d);
  if (in_bounds(info, static_cast<double>(value.as_integer()), value, path, d)) out = value.as_integer();
}
void store(const FieldInfo& info, const Value& value, const std::string& path, int& out, Diagnostics& d) {
  std::int64_t wide = 0;
  const std::size_t before = d.size();
  store(info, value, path, wide, d);
  if (d.size() != before) return;
  if (wide < std::numeric_limits<int>::min() || wide > std::numeric_limits<int>::max()) {
    d.add(value.pos, format("{} = {} does not fit 32 bits", path, wide));
    return;
  }
  out = static_cast<int>(wide);
}
void store(const FieldInfo& info, const Value& value, const std::string& path, double& out, Diagnostics& d) {
  if (!value.is_number()) return wrong_type(info, value, path, d);
  if (in_bounds(info, value.as_number(), value, path, d)) out = value.as_number();
}
void store(const FieldInfo& info, const Value& value, const std::string& path, std::string& out, Diagnostics& d) {
  if (!value.is_string()) return wrong_type(info, value, path, d);
  const auto& choices = info.options.choices;
  if (!choices.empty() && std::find(choices.begin(), choices.end(), value.as_string()) == choices.end()) {
    d.add(value.pos, path + " = \"" + value.as_string() + "\" is not known", "one of: " + join(choices, ", "));
    return;
  }
  out = value.as_string();
}
void store(const FieldInfo& info, const Value& value, const std::string& path, Seconds& out, Diagnostics& d) {
  if (!value.is_string()) return wrong_type(info, value, path, d);
  const auto seconds = duration_setting(value.as_string());
  if (!seconds) {
    d.add(value.pos, path + " = \"" + value.as_string() + "\" is not a duration", duration_remedy(value.as_string()));
    return;
  }
  if (in_bounds(info, *seconds, value, path, d)) out.value = *seconds;
}
void store(const FieldInfo& info, const Value& value, const std::string& path, ByteCount& out, Diagnostics& d) {
  if (!value.is_string()) return wrong_type(info, value, path, d);
  const auto bytes = parse_bytes(value.as_string());
  if (!bytes) {
    d.add(value.pos, path + " = \"" + value.as_string() + "\" is not a size", "for example \"512MiB\", \"16GiB\"");
    return;
  }
  if (in_bounds(info, static_cast<double>(*bytes), value, path, d)) out.value = *bytes;
}
void store(const FieldInfo& info, const Value& value, const std::string& path, std::vector<std::string>& out,
           Diagnostics& d) {
  store_list(info, value, path, out, d,
             [&](const Value& element, const std::string& at, std::vector<std::string>& list) {
               std::string text;
               const std::size_t before = d.size();
               FieldInfo single = info;
               single.type = "text";
               single.name.clear();
               store(single, element, at, text, d);
               list.push_back(std::move(text));
               return d.size() == before;
             });
}
void store(const FieldInfo& info, const Value& value, const std::string& path, std::vector<std::int64_t>& out,
           Diagnostics& d) {
  store_list(info, value, path, out, d,
             [&](const Value& element, const std::string& at, std::vector<std::int64_t>& list) {
               std::int64_t number = 0;
               const std::size_t before = d.size();
               FieldInfo single = info;
               single.type = "integer";
               single.name.clear();
               store(single, element, at, number, d);
               list.push_back(number);
               return d.size() == before;
             });
}
void store(const FieldInfo& info, const Value& value, const std::string& path, std::vector<double>& out,
           Diagnostics& d) {
  store_list(info, value, path, out, d, [&](const Value& element, const std::string& at, std::vector<double>& list) {
    double number = 0;
    const std::size_t before = d.size();
    FieldInfo single = info;
    single.type = "number";
    single.name.clear();
    store(single, element, at, number, d);
    list.push_back(number);
    return d.size() == before;
  });
}
void store(const FieldInfo& info, const Value& value, const std::string& path, std::map<std::string, std::string>& out,
           Diagnostics& d) {
  if (!value.is_table()) return wrong_type(info, value, path, d);
  std::map<std::string, std::string> map;
  for (const ValueMember& member : value.as_table()) {
    if (!member.value.is_string()) {
      d.add(member.value.pos, path + "." + member.key + " is " + type_text(member.value) + ", expected text",
            type_remedy(text_of_table(member.key), member.value));
      return;
    }
    map[member.key] = member.value.as_string();
  }
  out = std::move(map);
}
void store(const FieldInfo& info, const Value& value, const std::string& path, std::map<std::string, std::int64_t>& out,
           Diagnostics& d) {
  store_numbers(info, value, path, out, d);
}
void store(const FieldInfo& info, const Value& value, const std::string& path, std::map<std::string, double>& out,
           Diagnostics& d) {
  store_numbers(info, value, path, out, d);
}

Value load(bool b) {
  return b;
}
Value load(int i) {
  return i;
}
Value load(std::int64_t i) {
  return static_cast<long long>(i);
}
Value load(double d) {
  return d;
}
Value load(const std::string& s) {
  return s;
}
Value load(Seconds s) {
  return s.value == std::floor(s.value) ? format("{:.0f}s", s.value) : format("{:.0f}ms", s.value * 1e3);
}
Value load(ByteCount b) {
  return format("{}B", b.value);
}
Value load(const std::vector<std::string>& list) {
  return ValueArray(list.begin(), list.end());
}
Value load(const std::vector<std::int64_t>& list) {
  Value array = Value::make_array();
  for (std::int64_t i : list) array.push_back(static_cast<long long>(i));
  return array;
}
Value load(const std::vector<double>& list) {
  return ValueArray(list.begin(), list.end());
}
Value load(const std::map<std::string, std::string>& map) {
  Value table = Value::make_table();
  for (const auto& [key, value] : map) table.set(key, value);
  return table;
}
Value load(const std::map<std::string, std::int64_t>& map) {
  Value table = Value::make_table();
  for (const auto& [key, value] : map) table.set(key, static_cast<long long>(value));
  return table;
}
Value load(const std::map<std::string, double>& map) {
  Value table = Value::make_table();
  for (const auto& [key, value] : map) table.set(key, value);
  return table;
}

const char* type_name(const bool*) {
  return "yes/no";
}
const char* type_name(const int*) {
  return "integer";
}
const char* type_name(const std::int64_t*) {
  return "integer";
}
const char* type_name(const double*) {
  return "number";
}
const char* type_name(const std::string*) {
  return "text";
}
const char* type_name(const Seconds*) {
  return "duration";
}
const char* type_name(const ByteCount*) {
  return "size";
}
const char* type_name(const std::vector<std::string>*) {
  return "list of text";
}
const char* type_name(const std::vector<std::int64_t>*) {
  return "list of integers";
}
const char* type_name(const std::vector<double>*) {
  return "list of numbers";
}
const char* type_name(const std::map<std::string, std::string>*) {
  return "table of text";
}
const char* type_name(const std::map<std::string, std::int64_t>*) {
  return "table of integers";
}
const char* type_name(const std::map<std::string, double>*) {
  return "table of numbers";
}

std::string default_text(const Value& value) {
  Value holder = Value::make_table();
  holder.set("x", value);
  if (value.is_table()) return value.size() == 0 ? "{}" : "table";
  const std::string toml = to_toml(holder);
  return trim(toml.substr(toml.find('=') + 1));
}

std::vector<FieldInfo> with_defaults(std::vector<FieldInfo> fields, const Value& defaults) {
  for (FieldInfo& field : fields) {
    const Value* value = defaults.find(field.name);
    if (!value || field.named || field.options.required) continue;
    if (field.members.empty())
      field.default_text = default_text(*value);
    else
      field.members = with_defaults(std::move(field.members), *value);
  }
  return fields;
}

}  // namespace field_detail
}  // namespace longhaul
