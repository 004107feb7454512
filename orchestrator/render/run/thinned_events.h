// The events of an attempt for a reader who draws curves. A training of weeks writes a million lines of the same few
// metrics, one a step: of those every so-manieth is enough. As many lines say how far it has come, for those who watch
// it: no curve needs them. Whatever else is said is taken whole.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "contracts/events/event.h"

namespace longhaul {

// All lines of `path` but metrics that have as many fields as most metrics there have: of those at most about
// `usual_max`, evenly spaced, and the last. A held-out loss, which comes once in a hundred steps, has other fields and
// stays. Events of kind `progress` are left out. A torn last line and what does not parse are left out; a file that is
// not there has no events.
std::vector<Event> read_thinned_events(const std::string& path, std::size_t usual_max);

}  // namespace longhaul
