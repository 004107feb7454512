// Lists, texts and numbers as Python writes them, which is what templates of lm-evaluation-harness print.
#pragma once

#include <string_view>

#include "base/value/value.h"

namespace longhaul {

// ast.literal_eval: texts in either quotes with their escapes, numbers, None, True, False, lists, tuples (as lists) and
// tables whose keys are texts. Anything else is an error that says where.
Result<Value> python_literal(std::string_view text);

}  // namespace longhaul
