// Tools in conversations: what a model may call, and the calls that its answers hold, as rows and requests write them
// (OpenAI's form, which chat templates take as transformers hands it to them).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error/result.h"
#include "base/value/value.h"

namespace longhaul {

struct ToolCall {
  std::string id;    // "": not given
  std::string name;  // of the function
  Value arguments;   // a table
  bool operator==(const ToolCall&) const = default;
};

// A list of {"type": "function", "function": {"name": ...}}, or of what stands under `function` alone, or the JSON text
// of such a list; null where it is empty. Templates are handed the list as it stands. Errors (invalid_input) name the
// place, which begins with `key`.
Result<Value> read_tools(const Value& written, std::string_view key);
// The name of one of them.
std::string tool_name(const Value& tool);

// A list of {"id", "type": "function", "function": {"name", "arguments"}}, or of what stands under `function` alone.
// Arguments are a table or the JSON text of one.
Result<std::vector<ToolCall>> read_tool_calls(const Value& written, std::string_view key);
// {"name", "arguments"} alone.
Result<ToolCall> read_called_function(const Value& function, std::string_view key);

}  // namespace longhaul
