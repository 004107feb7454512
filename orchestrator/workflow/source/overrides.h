// `--set KEY=VALUE` on the command line: replaces one value of the workflow before anything else looks at it. KEY is
// params.<name>[.<member>...] or stage.<name>.<key>[.<member>...]; VALUE is TOML (text needs its quotes).
#pragma once

#include <string>
#include <vector>

#include "base/error/diagnostics.h"
#include "base/value/value.h"

namespace longhaul {

// Params and stages must exist already, so that a misspelt name is an error and not a silent addition.
void apply_overrides(const std::vector<std::string>& sets, Value& workflow, Diagnostics& diagnostics);

// Sets the member at `path` ("optimizer.lr" split at dots), making tables on the way. Replaces what is no table.
void set_at_path(Value& table, const std::vector<std::string>& path, const Value& value, const SourcePos& where);

}  // namespace longhaul
