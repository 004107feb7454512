// Fields of a request that would change an answer and that this server does not do: asked for, they are refused by
// name; with a value that changes nothing they are taken. What is in no table changes nothing and is not looked at.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/value.h"

namespace longhaul {

struct UndoneField {
  const char* key;
  std::vector<const char*> harmless;  // values, as JSON, that ask for nothing; null always does
  const char* why;
};
std::span<const UndoneField> undone_fields();

// Whether the value asks for nothing that would be left undone.
bool asks_for_nothing(const UndoneField& field, const Value& value);

}  // namespace longhaul
