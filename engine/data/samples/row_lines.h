// Files of JSON Lines: an object on every line that is not blank. All problems of a file are reported together, with
// their lines (at most 20 are shown).
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/error/result.h"
#include "base/value/value.h"

namespace longhaul {

using ReadRow = std::function<Status(const Value& row, int line)>;

// Calls `read` for every object; its errors are gathered. `name` stands in errors.
Status for_each_row(std::string_view text, const std::string& name, const ReadRow& read);

}  // namespace longhaul
