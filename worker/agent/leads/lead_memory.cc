#include "worker/agent/leads/lead_memory.h"

namespace longhaul {

void LeadMemory::lost(std::int64_t now_ns, bool silent, bool only_waited) {
  without_since_ns_ = now_ns, silent_ = silent;
  if (!only_waited) lost_lead_ = {now_ns, at_};
}

}  // namespace longhaul
