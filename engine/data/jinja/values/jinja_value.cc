#include "engine/data/jinja/values/jinja_value.h"

#include <algorithm>
#include <cmath>

#include "base/text/text.h"
#include "engine/data/jinja/values/jinja_text.h"
#include "engine/data/tokenizer/utf8.h"

namespace longhaul {

Error jinja_error(std::string what, std::string hint) {
  return make_error(ErrorCode::unsupported, std::move(what), std::move(hint));
}

Status check_text_size(std::uint64_t bytes) {
  if (bytes <= jinja_text_bytes_max) return {};
  return jinja_error(format("a text of more than {} is made", human_bytes(static_cast<double>(jinja_text_bytes_max))));
}

const JinjaValue* JinjaTable::find(std::string_view key) const {
  for (const auto& [name, value] : members)
    if (name == key) return &value;
  return nullptr;
}

void JinjaTable::set(const std::string& key, JinjaValue value) {
  for (auto& [name, old] : members)
    if (name == key) {
      old = std::move(value);
      return;
    }
  members.emplace_back(key, std::move(value));
}

const JinjaValue* JinjaArguments::find(std::string_view name) const {
  for (const auto& [key, value] : named)
    if (key == name) return &value;
  return nullptr;
}

void JinjaValue::count(const JinjaValue& part) {
  weight_ += part.weight_ + 4;
  depth_ = std::max(depth_, part.depth_ + 1);
  holds_names_ |= part.holds_names_;
}

JinjaValue JinjaValue::undefined(std::string name) {
  JinjaValue made;
  made.kind_ = Kind::undefined, made.data_ = JinjaUndefined{std::move(name)};
  return made;
}
JinjaValue JinjaValue::of(bool b) {
  JinjaValue made;
  made.kind_ = Kind::boolean, made.data_ = std::int64_t{b ? 1 : 0};
  return made;
}
JinjaValue JinjaValue::of(std::int64_t i) {
  JinjaValue made;
  made.kind_ = Kind::integer, made.data_ = i;
  return made;
}
JinjaValue JinjaValue::of(double d) {
  JinjaValue made;
  made.kind_ = Kind::number, made.data_ = d;
  return made;
}
JinjaValue JinjaValue::of(std::string text, bool safe) {
  JinjaValue made;
  made.weight_ += text.size();
  made.kind_ = Kind::text, made.safe_ = safe, made.data_ = std::make_shared<const std::string>(std::move(text));
  return made;
}
JinjaValue JinjaValue::of(JinjaList list, Kind kind) {
  JinjaValue made;
  for (const JinjaValue& part : list) made.count(part);
  made.kind_ = kind, made.data_ = std::make_shared<const JinjaList>(std::move(list));
  return made;
}
JinjaValue JinjaValue::of(JinjaTable table) {
  JinjaValue made;
  for (const auto& [key, part] : table.members) made.count(part), made.weight_ += key.size() + 4;
  made.kind_ = Kind::table, made.data_ = std::make_shared<const JinjaTable>(std::move(table));
  return made;
}
JinjaValue JinjaValue::of(JinjaNamespace names) {
  JinjaValue made;
  made.holds_names_ = true;
  made.kind_ = Kind::names, made.data_ = std::make_shared<JinjaNamespace>(std::move(names));
  return made;
}
JinjaValue JinjaValue::stream(JinjaList items, bool view) {
  JinjaValue made;
  for (const JinjaValue& part : items) made.count(part);
  made.kind_ = Kind::stream;
  made.data_ = std::make_shared<JinjaStream>(JinjaStream{std::make_shared<JinjaList>(std::move(items)), 0, view});
  return made;
}
JinjaValue JinjaValue::of(JinjaFunction function) {
  JinjaValue made;
  made.kind_ = Kind::function, made.data_ = std::make_shared<const JinjaFunction>(std::move(function));
  return made;
}

JinjaValue JinjaValue::from(const Value& value) {
  switch (value.kind()) {
    case Value::Kind::null: return {};
    case Value::Kind::boolean: return of(value.as_bool());
    case Value::Kind::integer: return of(value.as_integer());
    case Value::Kind::number: return of(value.as_number());
    case Value::Kind::string: return of(value.as_string());
    case Value::Kind::array: {
      JinjaList list;
      for (const Value& one : value.as_array()) list.push_back(from(one));
      return of(std::move(list));
    }
    case Value::Kind::table: {
      JinjaTable table;
      for (const ValueMember& member : value.as_table()) table.members.emplace_back(member.key, from(member.value));
      return of(std::move(table));
    }
  }
  return {};
}

const char* JinjaValue::kind_name() const {
  static constexpr const char* names[] = {"undefined", "NoneType", "bool", "int",       "float",     "str",
                                          "list",      "tuple",    "dict", "namespace", "generator", "function"};
  return names[static_cast<std::size_t>(kind_)];
}

double JinjaValue::as_number() const {
  return is(Kind::number) ? std::get<double>(data_) : static_cast<double>(as_integer());
}

bool JinjaValue::is_true() const {
  switch (kind_) {
    case Kind::undefined:
    case Kind::none: return false;
    case Kind::boolean:
    case Kind::integer: return as_integer() != 0;
    case Kind::number: return as_number() != 0;
    case Kind::text: return !as_text().empty();
    case Kind::list:
    case Kind::tuple: return !as_list().empty();
    case Kind::table: return !as_table().members.empty();
    case Kind::stream: return !as_stream().view || !as_stream().items->empty();
    case Kind::names:
    case Kind::function: break;
  }
  return true;
}

bool JinjaValue::same_as(const JinjaValue& other) const {
  if (kind_ != other.kind_) return false;
  if (is(Kind::none)) return true;
  if (is(Kind::boolean)) return as_bool() == other.as_bool();
  if (is_sequence()) return &as_list() == &other.as_list();
  if (is(Kind::table)) return &as_table() == &other.as_table();
  if (is(Kind::names)) return &as_names() == &other.as_names();
  return false;
}

bool jinja_equal(const JinjaValue& a, const JinjaValue& b) {
  using Kind = JinjaValue::Kind;
  if (a.is_whole() && b.is_whole()) return a.as_integer() == b.as_integer();
  if (a.is_number() && b.is_number()) return a.as_number() == b.as_number();
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::undefined:
    case Kind::none: return true;
    case Kind::text: return a.as_text() == b.as_text();
    case Kind::list:
    case Kind::tuple: {
      const JinjaList &x = a.as_list(), &y = b.as_list();
      return std::equal(x.begin(), x.end(), y.begin(), y.end(), jinja_equal);
    }
    case Kind::table: {
      if (a.as_table().members.size() != b.as_table().members.size()) return false;
      for (const auto& [key, value] : a.as_table().members) {
        const JinjaValue* other = b.as_table().find(key);
        if (!other || !jinja_equal(value, *other)) return false;
      }
      return true;
    }
    case Kind::names: return a.same_as(b);
    default: return false;
  }
}

Result<int> jinja_compare(const JinjaValue& a, const JinjaValue& b) {
  const auto sign = [](const auto& x, const auto& y) { return x < y ? -1 : (y < x ? 1 : 0); };
  if (a.is_whole() && b.is_whole()) return sign(a.as_integer(), b.as_integer());
  if (a.is_number() && b.is_number()) return sign(a.as_number(), b.as_number());
  if (a.is(JinjaValue::Kind::text) && b.is(JinjaValue::Kind::text)) return sign(a.as_text(), b.as_text());  // UTF-8
  if (a.is_sequence() && a.kind() == b.kind()) {
    const JinjaList &x = a.as_list(), &y = b.as_list();
    for (std::size_t i = 0; i < std::min(x.size(), y.size()); ++i)
      if (!jinja_equal(x[i], y[i])) return jinja_compare(x[i], y[i]);
    return sign(x.size(), y.size());
  }
  return jinja_error(format("there is no order between {} and {}", a.kind_name(), b.kind_name()));
}

namespace {

// repr() of a float: the shortest digits that give the number back, in Python's choice of form.
std::string number_text(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
  if (number == 0) return std::signbit(number) ? "-0.0" : "0.0";
  const std::string shortest = format("{:e}", number);  // for the exponent alone
  const int exponent = std::stoi(shortest.substr(shortest.find('e') + 1));
  std::string text = format("{}", number);
  const std::size_t at = text.find('e');
  std::string digits = text.substr(0, at);
  int shown = at == std::string::npos ? 0 : std::stoi(text.substr(at + 1));
  const bool negative = digits[0] == '-';
  if (negative) digits.erase(0, 1);
  const std::size_t point = digits.find('.');
  if (point != std::string::npos) {
    shown -= static_cast<int>(digits.size() - point - 1);
    digits.erase(point, 1);
  }
  while (digits.size() > 1 && digits[0] == '0') digits.erase(0, 1);
  while (digits.size() > 1 && digits.back() == '0') digits.pop_back(), ++shown;
  std::string out;
  if (exponent < -4 || exponent >= 16) {
    const int tens = shown + static_cast<int>(digits.size()) - 1;
    out = digits.substr(0, 1);
    if (digits.size() > 1) out += "." + digits.substr(1);
    out += format("e{}{:02}", tens < 0 ? '-' : '+', std::abs(tens));
  } else if (shown >= 0) {
    out = digits + std::string(static_cast<std::size_t>(shown), '0') + ".0";
  } else if (static_cast<std::size_t>(-shown) >= digits.size()) {
    out = "0." + std::string(static_cast<std::size_t>(-shown) - digits.size(), '0') + digits;
  } else {
    out = digits;
    out.insert(digits.size() - static_cast<std::size_t>(-shown), ".");
  }
  return negative ? "-" + out : out;
}

Result<std::string> joined(const JinjaList& list, const char* open, const char* close) {
  std::string out = open;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (i > 0) out += ", ";
    LH_TRY(const std::string one, jinja_repr(list[i]));
    out += one;
  }
  return out + close;
}

void append_json_text(std::string& out, const std::string& text, bool ascii) {
  out += '"';
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint c = read_utf8(text, at);
    switch (c.value) {
      case '"': out += "\\\""; break;
      case '\\': out += "\\\\"; break;
      case '\n': out += "\\n"; break;
      case '\r': out += "\\r"; break;
      case '\t': out += "\\t"; break;
      case '\b': out += "\\b"; break;
      case '\f': out += "\\f"; break;
      default:
        if (c.value < 0x20 || (ascii && c.value > 0x7E && c.value < 0x10000))
          out += format("\\u{:04x}", c.value);
        else if (ascii && c.value > 0x7E)
          out += format("\\u{:04x}\\u{:04x}", 0xD800 + ((c.value - 0x10000) >> 10), 0xDC00 + (c.value & 0x3FF));
        else
          out += text.substr(at, c.length);
    }
    at += c.length;
  }
  out += '"';
}

class JsonWriter {
 public:
  explicit JsonWriter(const JinjaJsonForm& form) : form_(form) {}
  std::string text;

  Status write(const JinjaValue& value, int depth) {
    using Kind = JinjaValue::Kind;
    switch (value.kind()) {
      case Kind::none: text += "null"; return {};
      case Kind::boolean: text += value.as_bool() ? "true" : "false"; return {};
      case Kind::integer: text += std::to_string(value.as_integer()); return {};
      case Kind::number: text += json_number(value.as_number()); return {};
      case Kind::text: append_json_text(text, value.as_text(), form_.ascii); return {};
      case Kind::list:
      case Kind::tuple: return write_list(value.as_list(), depth);
      case Kind::table: return write_table(value.as_table(), depth);
      default: break;
    }
    return jinja_error(format("tojson of a value of kind {} is an error in Jinja, too", value.kind_name()));
  }

 private:
  static std::string json_number(double number) {
    if (std::isnan(number)) return "NaN";
    if (std::isinf(number)) return number < 0 ? "-Infinity" : "Infinity";
    return number_text(number);
  }
  void new_line(int depth) {
    if (!form_.indented) return;
    text += '\n';
    for (int i = 0; i < depth; ++i) text += form_.indent;
  }
  void separate(bool first, int depth) {
    if (!first) text += form_.item_separator;
    new_line(depth);
  }
  Status write_list(const JinjaList& list, int depth) {
    text += '[';
    for (std::size_t i = 0; i < list.size(); ++i) {
      separate(i == 0, depth + 1);
      LH_CHECK(write(list[i], depth + 1));
    }
    if (!list.empty()) new_line(depth);
    text += ']';
    return {};
  }
  Status write_table(const JinjaTable& table, int depth) {
    std::vector<const std::pair<std::string, JinjaValue>*> members;
    for (const auto& member : table.members) members.push_back(&member);
    if (form_.sort_keys)
      std::sort(members.begin(), members.end(), [](const auto* a, const auto* b) { return a->first < b->first; });
    text += '{';
    for (std::size_t i = 0; i < members.size(); ++i) {
      separate(i == 0, depth + 1);
      append_json_text(text, members[i]->first, form_.ascii);
      text += form_.key_separator;
      LH_CHECK(write(members[i]->second, depth + 1));
    }
    if (!members.empty()) new_line(depth);
    text += '}';
    return {};
  }
  const JinjaJsonForm& form_;
};

}  // namespace

Result<std::string> jinja_str(const JinjaValue& value) {
  if (value.is(JinjaValue::Kind::undefined)) return std::string();
  if (value.is(JinjaValue::Kind::text)) return value.as_text();
  return jinja_repr(value);
}

Result<std::string> jinja_repr(const JinjaValue& value) {
  using Kind = JinjaValue::Kind;
  switch (value.kind()) {
    case Kind::undefined: return std::string("Undefined");
    case Kind::none: return std::string("None");
    case Kind::boolean: return std::string(value.as_bool() ? "True" : "False");
    case Kind::integer: return std::to_string(value.as_integer());
    case Kind::number: return number_text(value.as_number());
    case Kind::text: return quoted_as_python(value.as_text());
    case Kind::list: return joined(value.as_list(), "[", "]");
    case Kind::tuple: return joined(value.as_list(), "(", value.as_list().size() == 1 ? ",)" : ")");
    case Kind::table: {
      std::string out = "{";
      for (const auto& [key, member] : value.as_table().members) {
        if (out.size() > 1) out += ", ";
        LH_TRY(const std::string name, quoted_as_python(key));
        LH_TRY(const std::string text, jinja_repr(member));
        out += name + ": " + text;
      }
      return out + "}";
    }
    default: break;
  }
  return jinja_error(format("a value of kind {} is printed", value.kind_name()),
                     "in Python this prints an address; use tojson, list or join");
}

Result<JinjaList> jinja_items(const JinjaValue& value) {
  using Kind = JinjaValue::Kind;
  switch (value.kind()) {
    case Kind::undefined: return JinjaList();
    case Kind::list:
    case Kind::tuple: return value.as_list();
    case Kind::text: {
      JinjaList out;
      const std::string& text = value.as_text();
      for (std::size_t at = 0; at < text.size();) {
        const std::size_t length = read_utf8(text, at).length;
        out.push_back(JinjaValue::of(text.substr(at, length)));
        at += length;
      }
      return out;
    }
    case Kind::table: {
      JinjaList out;
      for (const auto& [key, member] : value.as_table().members) out.push_back(JinjaValue::of(key));
      return out;
    }
    case Kind::stream: {
      JinjaStream& stream = value.as_stream();
      JinjaList out(stream.items->begin() + static_cast<std::ptrdiff_t>(stream.taken), stream.items->end());
      if (!stream.view) stream.taken = stream.items->size();
      return out;
    }
    default: break;
  }
  return jinja_error(format("a value of kind {} cannot be gone through", value.kind_name()));
}

Result<std::string> jinja_json(const JinjaValue& value, const JinjaJsonForm& form) {
  JsonWriter writer(form);
  LH_CHECK(writer.write(value, 0));
  return std::move(writer.text);
}

}  // namespace longhaul
