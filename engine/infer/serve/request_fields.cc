#include "engine/infer/serve/request_fields.h"

#include <algorithm>

#include "base/value/json.h"

namespace longhaul {

bool asks_for_nothing(const UndoneField& field, const Value& value) {
  if (value.is_null()) return true;
  return std::any_of(field.harmless.begin(), field.harmless.end(), [&](const char* json) {
    const Value harmless = parse_json(json).value();
    if (harmless.is_number() && value.is_number()) return harmless.as_number() == value.as_number();
    return to_json(harmless) == to_json(value);
  });
}

}  // namespace longhaul
