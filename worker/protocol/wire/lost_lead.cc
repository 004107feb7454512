#include "worker/protocol/wire/lost_lead.h"

namespace longhaul {

void add_lost_lead(const LostLead& lost, Value& state) {
  state.set("lost_since_ns", lost.since_ns);
  state.set("lost_address", lost.at.address);
  state.set("lost_port", lost.at.port);
}

LostLead lost_lead_of(const Value& state) {
  return {state.get_integer("lost_since_ns"),
          {state.get_string("lost_address"), static_cast<int>(state.get_integer("lost_port"))}};
}

}  // namespace longhaul
