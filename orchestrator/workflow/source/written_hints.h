// What to say about slips that the reader of a workflow meets before it understands anything: a file in another
// format, a text without quotes, a path that was meant as a stage.
#pragma once

#include <functional>
#include <string>

#include "base/error/result.h"

namespace longhaul {

// Of a text that is not TOML: what it seems to be, or how its line `where.line` is written; "" where nothing can be
// said.
std::string syntax_hint(const std::string& path, const std::string& text, const Error& error);
// The error with that hint in place of its own, where there is one.
Error with_syntax_hint(Error error, const std::string& path, const std::string& text);

// Of a path, as written at `what` ("stage.a.inputs.model"), that does not exist. `is_stage` knows the names of stages.
std::string missing_path_hint(const std::string& path, const std::string& what, const std::string& folder,
                              const std::function<bool(const std::string&)>& is_stage);

}  // namespace longhaul
