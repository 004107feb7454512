// What ranks say of silent data corruption, found in the events of an attempt. Pure.
#pragma once

#include <optional>
#include <vector>

#include "contracts/events/event.h"
#include "contracts/events/silent_corruption.h"

namespace longhaul {

// The newest that a rank of this launch has reported; nullopt: there is none.
std::optional<SilentCorruption> reported_corruption(const std::vector<Event>& events, int launch);

}  // namespace longhaul
