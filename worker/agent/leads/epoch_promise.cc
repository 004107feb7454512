#include "worker/agent/leads/epoch_promise.h"

namespace longhaul {

bool EpochPromise::give(const LeadEpoch& asked, const LeadEpoch& led) {
  if (asked.host.empty() || asked.number <= led.number) return false;
  if (asked.number > newest_.number) newest_ = asked;
  return asked == newest_;
}

}  // namespace longhaul
