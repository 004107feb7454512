// Room base/value
// One tree type for everything that is read from or written to TOML and JSON, with positions where it has them.
// value.h is the tree, json.h parser and writer; json_limits.h bounds the memory of JSON from other people;
// json_schema.h says whether a value is as a JSON schema wants it.
// It opens no files; TOML is base/toml.h, because that reads files as well.
//
// One tree type for everything that is read from or written to TOML and JSON: scalars, arrays, and tables that keep
// their order. Values read from TOML know where they stood; JSON values have no position.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/error/result.h"

namespace longhaul {

class Value;
using ValueArray = std::vector<Value>;

struct ValueMember;
using ValueTable = std::vector<ValueMember>;  // in the order written; keys are unique

class Value {
 public:
  enum class Kind { null, boolean, integer, number, string, array, table };

  // Implicit on purpose, so that a table can be written down as it reads. NOLINTBEGIN(google-explicit-constructor)
  Value();
  Value(bool b);
  Value(int i);
  Value(unsigned i);
  Value(long i);
  Value(long long i);
  Value(unsigned long i);
  Value(unsigned long long i);
  Value(double d);
  Value(const char* s);
  Value(std::string s);
  Value(std::string_view s);
  Value(ValueArray a);
  Value(ValueTable t);
  // NOLINTEND(google-explicit-constructor)
  Value(const Value& other);
  Value(Value&& other) noexcept;
  Value& operator=(const Value& other);
  Value& operator=(Value&& other) noexcept;
  ~Value();
  static Value make_array();
  static Value make_table();

  Kind kind() const { return static_cast<Kind>(data_.index()); }
  static const char* kind_name(Kind kind);  // "integer", "table", ...
  const char* kind_name() const { return kind_name(kind()); }
  bool is_null() const { return kind() == Kind::null; }
  bool is_bool() const { return kind() == Kind::boolean; }
  bool is_integer() const { return kind() == Kind::integer; }
  bool is_number() const { return kind() == Kind::number || is_integer(); }
  bool is_string() const { return kind() == Kind::string; }
  bool is_array() const { return kind() == Kind::array; }
  bool is_table() const { return kind() == Kind::table; }

  // Unchecked access: the program ends if the kind is another one. as_number() also takes integers.
  bool as_bool() const;
  std::int64_t as_integer() const;
  double as_number() const;
  const std::string& as_string() const;
  const ValueArray& as_array() const;
  ValueArray& as_array();
  const ValueTable& as_table() const;
  ValueTable& as_table();

  // Lookups with a default, for files of our own: the default also where the kind is another one.
  bool get_bool(std::string_view key, bool otherwise = false) const;
  std::int64_t get_integer(std::string_view key, std::int64_t otherwise = 0) const;
  double get_number(std::string_view key, double otherwise = 0) const;
  std::string get_string(std::string_view key, std::string_view otherwise = {}) const;

  // Tables: nullptr where the key is absent (or this is no table).
  const Value* find(std::string_view key) const;
  Value* find(std::string_view key);
  // Sets or replaces; a null value becomes a table first. Returns the stored value.
  Value& set(std::string_view key, Value value);
  void erase(std::string_view key);
  // Arrays; a null value becomes an array first.
  Value& push_back(Value value);
  std::size_t size() const;  // members or elements; 0 for scalars

  // Where it stood in the user's file; line 0 where there is none.
  SourcePos pos;

  // Equality of content; positions do not count, member order does.
  bool operator==(const Value& other) const;

 private:
  std::variant<std::monostate, bool, std::int64_t, double, std::string, ValueArray, ValueTable> data_;
};

struct ValueMember {
  std::string key;
  Value value;
  SourcePos key_pos;
  bool operator==(const ValueMember& other) const { return key == other.key && value == other.value; }
};

// Only here is ValueMember complete, which the tree's own container needs to be.
inline Value::Value() = default;
inline Value::Value(const Value& other) = default;
inline Value::Value(Value&& other) noexcept = default;
inline Value& Value::operator=(const Value& other) = default;
inline Value& Value::operator=(Value&& other) noexcept = default;
inline Value::~Value() = default;
inline bool Value::operator==(const Value& other) const {
  return data_ == other.data_;
}

}  // namespace longhaul
