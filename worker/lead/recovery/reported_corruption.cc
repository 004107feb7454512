#include "worker/lead/recovery/reported_corruption.h"

namespace longhaul {

std::optional<SilentCorruption> reported_corruption(const std::vector<Event>& events, int launch) {
  for (auto event = events.rbegin(); event != events.rend(); ++event) {
    if (event->kind != "faulted" || event->fields.get_integer("launch", -1) != launch) continue;
    if (const std::optional<SilentCorruption> found = silent_corruption_of(event->fields)) return found;
  }
  return std::nullopt;
}

}  // namespace longhaul
