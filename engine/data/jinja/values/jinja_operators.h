// Arithmetic of templates, as Python's; whole numbers that leave 64 bits are refused.
#pragma once

#include <string>

#include "engine/data/jinja/values/jinja_value.h"

namespace longhaul {

// "+", "-", "*", "/", "//", "%", "**", "~".
Result<JinjaValue> jinja_binary(const std::string& sign, const JinjaValue& left, const JinjaValue& right);
// "-", "+".
Result<JinjaValue> jinja_unary(const std::string& sign, const JinjaValue& of);
// "==", "!=", "<", "<=", ">", ">=", "in", "not in".
Result<bool> jinja_relation(const std::string& sign, const JinjaValue& left, const JinjaValue& right);

}  // namespace longhaul
