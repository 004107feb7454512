// How a template looks into values: a.b, a["b"], a[1:2], methods of texts, lists and tables. What Python has and is not
// done here is an error when it is called, never nothing.
#pragma once

#include <optional>
#include <string>

#include "engine/data/jinja/values/jinja_value.h"

namespace longhaul {

Result<JinjaValue> jinja_attribute(const JinjaValue& of, const std::string& name);
Result<JinjaValue> jinja_item(const JinjaValue& of, const JinjaValue& index);
// As `attribute` of filters names it: "a.b.0".
Result<JinjaValue> jinja_path(const JinjaValue& of, const std::string& path);
struct JinjaSlice {
  std::optional<std::int64_t> begin, end, step;
};
Result<JinjaValue> jinja_slice(const JinjaValue& of, const JinjaSlice& slice);
// `element in container`.
Result<bool> jinja_contains(const JinjaValue& container, const JinjaValue& element);

// A method bound to its object; nullopt: Python has none of that name. In jinja_methods.cc.
std::optional<JinjaValue> jinja_method(const JinjaValue& of, const std::string& name);

// The arguments of a call by the names of its parameters, null where none was given. An error for too many, unknown and
// doubled ones; `what` is called.
Result<std::vector<const JinjaValue*>> bind_arguments(const std::string& what, const JinjaArguments& arguments,
                                                      const std::vector<std::string>& names);
// Neither left out nor none.
bool is_given(const JinjaValue* argument);
// A whole number or a text that was given as argument, checked.
Result<std::int64_t> whole_argument(const std::string& what, const JinjaValue* value, std::int64_t otherwise);
Result<std::string> text_argument(const std::string& what, const JinjaValue* value, const std::string& otherwise);
// The text of a value that has to be one, and is not marked safe.
Result<std::string> plain_text(const std::string& what, const JinjaValue& value);

}  // namespace longhaul
