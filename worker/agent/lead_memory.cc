#include "worker/agent/lead_memory.h"

namespace longhaul {

void LeadMemory::lost(std::int64_t now_ns, std::int64_t epoch, bool silent, bool was_standby) {
  without_since_ns_ = now_ns, silent_ = silent;
  const bool only_waited = was_standby && epoch <= lost_epoch_;
  if (only_waited) return;
  lost_lead_ = {now_ns, at_};
  lost_epoch_ = epoch;
}

}  // namespace longhaul
