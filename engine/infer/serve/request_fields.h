// Whether a field of a request asks for anything; the tables are contracts/borders/request_field.h.
#pragma once

#include "base/value/value.h"
#include "contracts/borders/request_field.h"

namespace longhaul {

// Whether the value asks for nothing that would be left undone.
bool asks_for_nothing(const UndoneField& field, const Value& value);

}  // namespace longhaul
