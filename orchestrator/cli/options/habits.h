// What people type who come from other programs, and what it is here: for messages about commands and options that do
// not exist.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace longhaul {

// What such a command is here, as it is typed or in words: "longhaul runs" of "ls"; "" where nobody calls it so.
std::string command_habit(std::string_view typed);

// Of an option that a command does not have, where `known` are the long ones that it has: one that is nearly it, what
// it is here, or how the setting of that name is given; "" where nothing can be said.
std::string option_hint(const std::string& option, const std::vector<std::string>& known);

}  // namespace longhaul
