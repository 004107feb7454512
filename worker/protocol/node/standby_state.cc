#include "worker/protocol/node/standby_state.h"

#include "worker/protocol/node/reported_times.h"

namespace longhaul {

bool keep_lead_state(const Value& update, std::int64_t now_ns, std::int64_t now_ms, Value& state) {
  if (!update.is_table()) return false;
  const bool whole = update.find("launch") != nullptr, known = state.is_table() && state.find("launch");
  if (!whole && !known) return false;
  if (whole) state = update;
  if (!whole)
    for (const ValueMember& member : update.as_table()) state.set(member.key, member.value);
  note_arrival(now_ns, now_ms, state);
  return true;
}

}  // namespace longhaul
