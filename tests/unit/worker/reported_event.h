// Events as ranks and leads write them, for what is decided from them.
#pragma once

#include <initializer_list>
#include <string>
#include <utility>

#include "contracts/events/event.h"

namespace longhaul {

inline Event reported_event(const std::string& kind, std::initializer_list<std::pair<const char*, Value>> fields = {},
                            int rank = 0) {
  Event event{1'000, kind, rank, Value::make_table()};
  for (const auto& [name, value] : fields) event.fields.set(name, value);
  return event;
}

// A checkpoint that is whole: for how long the ranks stood still for it, and what it took until then.
inline Event saved_event(double stall_s, double write_s) {
  return reported_event("checkpoint", {{"stall_s", stall_s}, {"write_s", write_s}});
}

}  // namespace longhaul
