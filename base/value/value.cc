#include "base/value/value.h"

#include <algorithm>

namespace longhaul {

Value::Value(bool b) : data_(b) {}
Value::Value(int i) : data_(std::int64_t{i}) {}
Value::Value(unsigned i) : data_(std::int64_t{i}) {}
Value::Value(long i) : data_(std::int64_t{i}) {}
Value::Value(long long i) : data_(std::int64_t{i}) {}
Value::Value(unsigned long i) : data_(static_cast<std::int64_t>(i)) {}
Value::Value(unsigned long long i) : data_(static_cast<std::int64_t>(i)) {}
Value::Value(double d) : data_(d) {}
Value::Value(const char* s) : data_(std::string(s)) {}
Value::Value(std::string s) : data_(std::move(s)) {}
Value::Value(std::string_view s) : data_(std::string(s)) {}
Value::Value(ValueArray a) : data_(std::move(a)) {}
Value::Value(ValueTable t) : data_(std::move(t)) {}
Value Value::make_array() {
  return Value(ValueArray{});
}
Value Value::make_table() {
  return Value(ValueTable{});
}

const char* Value::kind_name(Kind kind) {
  switch (kind) {
    case Kind::null: return "null";
    case Kind::boolean: return "boolean";
    case Kind::integer: return "integer";
    case Kind::number: return "number";
    case Kind::string: return "string";
    case Kind::array: return "array";
    case Kind::table: return "table";
  }
  return "null";
}

namespace {
void require_kind(bool right, const char* wanted, const Value& value) {
  LH_ASSERT(right, std::string("wanted ") + wanted + ", have " + value.kind_name() + " at " + value.pos.file.str() +
                       ":" + std::to_string(value.pos.line));
}
}  // namespace

bool Value::as_bool() const {
  require_kind(is_bool(), "boolean", *this);
  return std::get<bool>(data_);
}
std::int64_t Value::as_integer() const {
  require_kind(is_integer(), "integer", *this);
  return std::get<std::int64_t>(data_);
}
double Value::as_number() const {
  if (is_integer()) return static_cast<double>(std::get<std::int64_t>(data_));
  require_kind(is_number(), "number", *this);
  return std::get<double>(data_);
}
const std::string& Value::as_string() const {
  require_kind(is_string(), "string", *this);
  return std::get<std::string>(data_);
}
const ValueArray& Value::as_array() const {
  require_kind(is_array(), "array", *this);
  return std::get<ValueArray>(data_);
}
ValueArray& Value::as_array() {
  require_kind(is_array(), "array", *this);
  return std::get<ValueArray>(data_);
}
const ValueTable& Value::as_table() const {
  require_kind(is_table(), "table", *this);
  return std::get<ValueTable>(data_);
}
ValueTable& Value::as_table() {
  require_kind(is_table(), "table", *this);
  return std::get<ValueTable>(data_);
}

bool Value::get_bool(std::string_view key, bool otherwise) const {
  const Value* found = find(key);
  return found && found->is_bool() ? found->as_bool() : otherwise;
}
std::int64_t Value::get_integer(std::string_view key, std::int64_t otherwise) const {
  const Value* found = find(key);
  return found && found->is_integer() ? found->as_integer() : otherwise;
}
double Value::get_number(std::string_view key, double otherwise) const {
  const Value* found = find(key);
  return found && found->is_number() ? found->as_number() : otherwise;
}
std::string Value::get_string(std::string_view key, std::string_view otherwise) const {
  const Value* found = find(key);
  return found && found->is_string() ? found->as_string() : std::string(otherwise);
}

const Value* Value::find(std::string_view key) const {
  if (!is_table()) return nullptr;
  for (const ValueMember& member : as_table())
    if (member.key == key) return &member.value;
  return nullptr;
}
Value* Value::find(std::string_view key) {
  return const_cast<Value*>(std::as_const(*this).find(key));
}

Value& Value::set(std::string_view key, Value value) {
  if (is_null()) data_ = ValueTable{};
  if (Value* found = find(key)) {
    *found = std::move(value);
    return *found;
  }
  as_table().push_back(ValueMember{std::string(key), std::move(value), {}});
  return as_table().back().value;
}

void Value::erase(std::string_view key) {
  if (!is_table()) return;
  std::erase_if(as_table(), [&](const ValueMember& member) { return member.key == key; });
}

Value& Value::push_back(Value value) {
  if (is_null()) data_ = ValueArray{};
  as_array().push_back(std::move(value));
  return as_array().back();
}

std::size_t Value::size() const {
  if (is_array()) return as_array().size();
  if (is_table()) return as_table().size();
  return 0;
}

}  // namespace longhaul
