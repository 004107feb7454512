// What to say about slips that the reader of a workflow meets before it understands anything: a file in another
// format, a text without quotes, a path that was meant as a stage.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/error/result.h"
#include "base/value/value.h"
#include "contracts/schema/field_table.h"

namespace longhaul {

// Of a text that is not TOML: what it seems to be, or how its line `where.line` is written; "" where nothing can be
// said.
std::string syntax_hint(const std::string& path, const std::string& text, const Error& error);
// The error with that hint in place of its own, where there is one.
Error with_syntax_hint(Error error, const std::string& path, const std::string& text);

// Of a stage kind that is not known: what other programs call it here, one that is nearly it, or all of them.
std::string kind_hint(const std::string& kind, const std::vector<std::string>& known);

// Of a key of `table` that is no table, where `fields` have one: how it is written. Other errors stay as they are.
Error with_table_hint(Error error, const std::vector<FieldInfo>& fields, const Value& table, const std::string& where);

// Of a path, as written at `what` ("stage.a.inputs.model"), that does not exist. `is_stage` knows the names of stages.
std::string missing_path_hint(const std::string& path, const std::string& what, const std::string& folder,
                              const std::function<bool(const std::string&)>& is_stage);

}  // namespace longhaul
