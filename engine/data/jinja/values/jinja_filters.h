// The filters of Jinja 3.1 that chat templates use, and `tojson` as transformers defines it.
#pragma once

#include <string>

#include "engine/data/jinja/values/jinja_value.h"

namespace longhaul {

bool is_jinja_filter(const std::string& name);
std::string jinja_filter_names();
Result<JinjaValue> apply_jinja_filter(const std::string& name, const JinjaValue& value,
                                      const JinjaArguments& arguments);

}  // namespace longhaul
