// Room engine/data/jinja/values
// Values of templates and all that can be done to them: operators, attributes, methods, filters, tests.
// jinja_value.h is the value; jinja_access.h and jinja_operators.h, jinja_filters.h and jinja_tests.h work on it.
// Every operation is a pure function that does as Python does, or an error: nothing is approximated.
// It knows no syntax, no scopes and no limits of a rendering: engine/data/jinja does.
//
// What a template computes with: Python's values as far as chat templates need them. Texts, lists and tables are
// shared, as Python's names share objects. Whole numbers have 64 bits: what would leave them is an error, not another
// number.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/error/result.h"
#include "base/value/value.h"

namespace longhaul {

class JinjaValue;
using JinjaList = std::vector<JinjaValue>;

// A name that nothing stands behind: prints as nothing and is false; anything else done with it is an error.
struct JinjaUndefined {
  std::string name;
};
// In the order in which keys were set. Keys are texts: other keys are refused where a table is made.
struct JinjaTable {
  std::vector<std::pair<std::string, JinjaValue>> members;
  const JinjaValue* find(std::string_view key) const;
  void set(const std::string& key, JinjaValue value);
};
// namespace(...): the one thing that a template may change.
struct JinjaNamespace {
  JinjaTable members;
};
// What map, select, items and their like give: read once, in order, without a length. `view`: a table's items() or
// keys(), which have a length and can be read again.
struct JinjaStream {
  std::shared_ptr<JinjaList> items;
  std::size_t taken = 0;
  bool view = false;
};
struct JinjaArguments {
  JinjaList positional;
  std::vector<std::pair<std::string, JinjaValue>> named;
  const JinjaValue* find(std::string_view name) const;
};
struct JinjaFunction {
  std::string name;
  std::function<Result<JinjaValue>(const JinjaArguments&)> call;
};

class JinjaValue {
 public:
  enum class Kind { undefined, none, boolean, integer, number, text, list, tuple, table, names, stream, function };

  JinjaValue() : kind_(Kind::none) {}
  static JinjaValue undefined(std::string name);
  static JinjaValue of(bool b);
  static JinjaValue of(std::int64_t i);
  static JinjaValue of(double d);
  // `safe`: marked by the filter of that name; joined with other texts it would be changed, so that is refused.
  static JinjaValue of(std::string text, bool safe = false);
  static JinjaValue of(JinjaList list, Kind kind = Kind::list);
  static JinjaValue of(JinjaTable table);
  static JinjaValue of(JinjaNamespace names);
  static JinjaValue stream(JinjaList items, bool view = false);
  static JinjaValue of(JinjaFunction function);
  // JSON as a template sees it.
  static JinjaValue from(const Value& value);

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool is_number() const { return is(Kind::boolean) || is(Kind::integer) || is(Kind::number); }
  bool is_whole() const { return is(Kind::boolean) || is(Kind::integer); }
  bool is_sequence() const { return is(Kind::list) || is(Kind::tuple); }
  bool is_safe() const { return safe_; }
  const char* kind_name() const;  // as in Python: "str", "dict", ...

  // Only of the kind that each names.
  const std::string& undefined_name() const { return std::get<JinjaUndefined>(data_).name; }
  bool as_bool() const { return std::get<std::int64_t>(data_) != 0; }
  std::int64_t as_integer() const { return std::get<std::int64_t>(data_); }  // booleans too
  double as_number() const;                                                  // all numbers
  const std::string& as_text() const { return *std::get<std::shared_ptr<const std::string>>(data_); }
  const JinjaList& as_list() const { return *std::get<std::shared_ptr<const JinjaList>>(data_); }  // tuples too
  const JinjaTable& as_table() const { return *std::get<std::shared_ptr<const JinjaTable>>(data_); }
  JinjaNamespace& as_names() const { return *std::get<std::shared_ptr<JinjaNamespace>>(data_); }
  JinjaStream& as_stream() const { return *std::get<std::shared_ptr<JinjaStream>>(data_); }
  const JinjaFunction& as_function() const { return *std::get<std::shared_ptr<const JinjaFunction>>(data_); }

  bool is_true() const;
  // Roughly the bytes that printing it takes, parts counted as often as they stand in it, and how deep it is nested:
  // what an interpreter bounds, so that no operation on a value it has let through takes long.
  std::uint64_t weight() const { return weight_; }
  int depth() const { return depth_; }
  bool holds_names() const { return holds_names_; }  // a namespace is in it

  // The very same object, as Python's `is` of None, True, False and shared things.
  bool same_as(const JinjaValue& other) const;

 private:
  void count(const JinjaValue& part);
  Kind kind_;
  bool safe_ = false, holds_names_ = false;
  int depth_ = 0;
  std::uint64_t weight_ = 8;
  std::variant<std::monostate, JinjaUndefined, std::int64_t, double, std::shared_ptr<const std::string>,
               std::shared_ptr<const JinjaList>, std::shared_ptr<const JinjaTable>, std::shared_ptr<JinjaNamespace>,
               std::shared_ptr<JinjaStream>, std::shared_ptr<const JinjaFunction>>
      data_;
};

// As Python compares: 1 == True == 1.0; kinds that do not fit are unequal.
bool jinja_equal(const JinjaValue& a, const JinjaValue& b);
// -1, 0, 1; an error where Python has no order between the two.
Result<int> jinja_compare(const JinjaValue& a, const JinjaValue& b);
// str() and repr() of Python; an error for what would print an address.
Result<std::string> jinja_str(const JinjaValue& value);
Result<std::string> jinja_repr(const JinjaValue& value);
// Everything that a loop over the value would see; a stream is used up by it.
Result<JinjaList> jinja_items(const JinjaValue& value);

struct JinjaJsonForm {
  bool ascii = false, sort_keys = false;
  std::string indent;  // one level of it
  bool indented = false;
  std::string item_separator = ", ", key_separator = ": ";
};
// json.dumps of Python.
Result<std::string> jinja_json(const JinjaValue& value, const JinjaJsonForm& form);

// Texts that are made have a limit, far above any prompt.
inline constexpr std::uint64_t jinja_text_bytes_max = std::uint64_t{1} << 26;
Status check_text_size(std::uint64_t bytes);

Error jinja_error(std::string what, std::string hint = {});

}  // namespace longhaul
