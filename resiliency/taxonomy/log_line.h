// What one line of a rank's log says about a fault.
//
// When one rank fails, a thousand others complain: their lines are true and say nothing of the cause. So every line has
// a role: `root` says why, `cascade` is the echo of another rank's fault, `confirmation` says only that something
// ended. Patterns are plain text that begins at the beginning of a word, compared without case, in the order of one
// table, the most significant first. Regular expressions were not taken: they are slower, and none was needed.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "resiliency/taxonomy/fault_class.h"

namespace longhaul {

enum class LineRole { root, cascade, confirmation };
const char* to_string(LineRole role);

struct LineFinding {
  FaultClass fault = FaultClass::none;
  LineRole role = LineRole::root;
  bool alone = false;  // reports the cause only where its program said nothing of a fault before
  bool operator==(const LineFinding&) const = default;
};

// Nothing for a line that says nothing of a fault. `scratch` is the caller's, so that a thousand tails need no thousand
// allocations; its content does not matter.
std::optional<LineFinding> classify_line(std::string_view line, std::string& scratch);
std::optional<LineFinding> classify_line(std::string_view line);

}  // namespace longhaul
