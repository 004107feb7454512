// What to write where a setting has a value of the wrong type: the line as it should stand.
#pragma once

#include <string>

#include "contracts/schema/field_table.h"

namespace longhaul {

// The value's type as the reference calls it: "text", "yes/no", "list", ...
std::string type_text(const Value& value);

// "write steps = 20, without quotes"; an example where nothing can be guessed from the value. Without the key where
// info.name is empty (elements of a list).
std::string type_remedy(const FieldInfo& info, const Value& value);

}  // namespace longhaul
