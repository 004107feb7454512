#include "orchestrator/state/host_warnings.h"

#include <algorithm>

namespace longhaul {

void add_host_warnings(const std::vector<Event>& events, std::vector<HostWarning>& warnings) {
  for (const Event& event : events) {
    if (event.kind != "health" || !event.fields.is_table()) continue;
    HostWarning found;
    found.host = event.fields.get_string("host");
    found.fault_class = event.fields.get_string("class");
    found.device = event.fields.get_string("device");
    const auto known = std::find_if(warnings.begin(), warnings.end(), [&](const HostWarning& one) {
      return one.host == found.host && one.fault_class == found.fault_class && one.device == found.device;
    });
    HostWarning& warning = known == warnings.end() ? warnings.emplace_back(std::move(found)) : *known;
    warning.severity = event.fields.get_string("severity");
    warning.what = event.fields.get_string("what");
    if (++warning.times == 1) warning.first_ms = event.wall_ms;
    warning.last_ms = std::max(warning.last_ms, event.wall_ms);
  }
  std::stable_sort(warnings.begin(), warnings.end(),
                   [](const HostWarning& a, const HostWarning& b) { return a.last_ms < b.last_ms; });
}

}  // namespace longhaul
