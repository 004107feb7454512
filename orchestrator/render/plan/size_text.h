// What a budget buys, for people and for programs.
#pragma once

#include <string>
#include <vector>

#include "autotune/search/training_size.h"
#include "base/value/value.h"

namespace longhaul {

// `device` "": none is known. `notes`: what was assumed of it.
std::string size_text(const SizeAnswer& answer, const std::string& device, const std::vector<std::string>& notes);
Value size_value(const SizeAnswer& answer, const std::string& device, const std::vector<std::string>& notes,
                 const std::string& toml);

}  // namespace longhaul
