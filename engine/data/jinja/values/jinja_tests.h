// The tests of Jinja 3.1 (`x is ...`) that chat templates use.
#pragma once

#include <string>

#include "engine/data/jinja/values/jinja_value.h"

namespace longhaul {

bool is_jinja_test(const std::string& name);
std::string jinja_test_names();
// It compares with something: `x is eq 3`.
bool jinja_test_takes_operand(const std::string& name);
Result<bool> apply_jinja_test(const std::string& name, const JinjaValue& value, const JinjaArguments& arguments);

}  // namespace longhaul
