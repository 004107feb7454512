// Lower case as Python's str.lower has it: Latin (Basic, Latin-1, Extended-A), Greek with its final sigma, Cyrillic.
// Letters of other scripts are left as they are: knows_case says of which characters that is right.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace longhaul {

std::string lower_case(std::string_view text);  // valid UTF-8
// A letter of the scripts above, in either case.
bool has_case(std::uint32_t c);
// It has a case that is known here, or none: also of the scripts and signs that have no case at all.
bool knows_case(std::uint32_t c);

}  // namespace longhaul
