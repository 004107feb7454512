#include "engine/data/template/chat_tools.h"

#include <algorithm>

#include "base/text/text.h"
#include "base/value/json.h"

namespace longhaul {
namespace {

Error wrong_tool(std::string what, std::string hint = {}) {
  return make_error(ErrorCode::invalid_input, std::move(what), std::move(hint));
}

Status check_type(const Value& table, const std::string& place) {
  const Value* type = table.find("type");
  if (!type || type->is_null() || (type->is_string() && type->as_string() == "function")) return {};
  return wrong_tool(format("{}.type is {}: tools of the type 'function' alone are understood here", place,
                           type->is_string() ? format("'{}'", type->as_string()) : type->kind_name()));
}

Status check_keys(const Value& table, std::initializer_list<std::string_view> known, const std::string& place) {
  for (const ValueMember& member : table.as_table())
    if (!member.value.is_null() && std::find(known.begin(), known.end(), member.key) == known.end())
      return wrong_tool(format("{}.{} is no key of a call of a tool", place, member.key));
  return {};
}

// What stands under `function`, or the table itself.
const Value& function_of(const Value& table) {
  const Value* function = table.find("function");
  return function && function->is_table() ? *function : table;
}

Result<std::string> name_of(const Value& function, const std::string& place) {
  const Value* name = function.find("name");
  if (!name || !name->is_string() || name->as_string().empty())
    return wrong_tool(format("{}.name is missing, or no text", place));
  if (!is_valid_utf8(name->as_string())) return wrong_tool(format("{}.name is not valid UTF-8", place));
  return name->as_string();
}

}  // namespace

Result<Value> read_tools(const Value& written, std::string_view key) {
  Value list = written;
  if (written.is_string()) {
    if (trim(written.as_string()).empty()) return Value();
    const Result<Value> inner = parse_json(written.as_string(), std::string(key));
    if (!inner.ok()) return wrong_tool(format("'{}' is a text, but no JSON: {}", key, inner.error().what));
    list = *inner;
  }
  if (!list.is_array()) return wrong_tool(format("'{}' is {}, expected a list of tools", key, list.kind_name()));
  if (list.size() == 0) return Value();
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Value& tool = list.as_array()[i];
    const std::string place = format("{}[{}]", key, i);
    if (!tool.is_table()) return wrong_tool(format("{} is {}, expected a tool", place, tool.kind_name()));
    LH_CHECK(check_type(tool, place));
    LH_TRY(const std::string name, name_of(function_of(tool), tool.find("function") ? place + ".function" : place));
  }
  if (!is_valid_utf8(to_json(list))) return wrong_tool(format("'{}' is not valid UTF-8", key));
  return list;
}

std::string tool_name(const Value& tool) {
  return function_of(tool).get_string("name");
}

Result<ToolCall> read_called_function(const Value& function, std::string_view key) {
  const std::string place(key);
  if (!function.is_table()) return wrong_tool(format("{} is {}, expected an object", place, function.kind_name()));
  ToolCall call;
  LH_TRY(call.name, name_of(function, place));
  call.arguments = Value::make_table();
  const Value* arguments = function.find("arguments");
  if (!arguments || arguments->is_null()) return call;
  if (arguments->is_string() && !trim(arguments->as_string()).empty()) {
    const Result<Value> inner = parse_json(arguments->as_string(), place + ".arguments");
    if (!inner.ok()) return wrong_tool(format("{}.arguments is a text, but no JSON: {}", place, inner.error().what));
    call.arguments = *inner;
  } else if (!arguments->is_string()) {
    call.arguments = *arguments;
  }
  if (!call.arguments.is_table())
    return wrong_tool(format("{}.arguments is {}, expected an object", place, call.arguments.kind_name()));
  if (!is_valid_utf8(to_json(call.arguments))) return wrong_tool(format("{}.arguments is not valid UTF-8", place));
  return call;
}

Result<std::vector<ToolCall>> read_tool_calls(const Value& written, std::string_view key) {
  if (!written.is_array()) return wrong_tool(format("'{}' is {}, expected a list of calls", key, written.kind_name()));
  std::vector<ToolCall> calls;
  for (std::size_t i = 0; i < written.size(); ++i) {
    const Value& one = written.as_array()[i];
    const std::string place = format("{}[{}]", key, i);
    if (!one.is_table()) return wrong_tool(format("{} is {}, expected a call", place, one.kind_name()));
    LH_CHECK(check_type(one, place));
    const bool nested = one.find("function") != nullptr;
    LH_CHECK(nested ? check_keys(one, {"id", "type", "function", "index"}, place)
                    : check_keys(one, {"id", "type", "name", "arguments", "index"}, place));
    if (nested && one.find("function")->is_table())
      LH_CHECK(check_keys(*one.find("function"), {"name", "arguments"}, place + ".function"));
    LH_TRY(ToolCall call,
           read_called_function(nested ? *one.find("function") : one, nested ? place + ".function" : place));
    if (const Value* id = one.find("id"); id && !id->is_null()) {
      if (!id->is_string() || !is_valid_utf8(id->as_string())) return wrong_tool(format("{}.id is no text", place));
      call.id = id->as_string();
    }
    calls.push_back(std::move(call));
  }
  return calls;
}

}  // namespace longhaul
