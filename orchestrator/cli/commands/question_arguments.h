// A question that stands in a TOML file, in KEY=VALUE arguments on the command line, or in both: the arguments win.
#pragma once

#include <string>
#include <vector>

#include "base/error/diagnostics.h"
#include "contracts/schema/field_table.h"

namespace longhaul {

// VALUE is TOML, or text without quotes; where a number is expected, also 8B, 15T, 4M, 2K; where a list is, a,b,c.
// `file` "" is none. What is wrong goes to the diagnostics, at the file's line or at the argument; keys and types are
// left to the fields' own parse().
Value question_value(const std::string& file, const std::vector<std::string>& arguments,
                     const std::vector<FieldInfo>& fields, Diagnostics& diagnostics);

}  // namespace longhaul
