#include "worker/lead/agents/succession.h"

namespace longhaul {

Succession succession_of(const Result<LeadAddress>& address, const LeadEpoch& own_epoch, bool recorded) {
  if (address.ok()) return address->lead_epoch() > own_epoch ? Succession::followed : Succession::leads;
  if (address.error().code != ErrorCode::not_found) return Succession::leads;
  return recorded ? Succession::followed : Succession::address_gone;
}

}  // namespace longhaul
