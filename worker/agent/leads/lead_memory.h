// What an agent remembers of its leads: since when there has been none to speak to, and which one it has lost. Pure.
//
// The two differ. A lead in waiting ends where it finds no majority: whoever had turned to it is without one again, but
// has been without a lead since the former was lost. That is what the next lead in waiting learns, for it counts from
// there how long that node has been missing.
#pragma once

#include <cstdint>
#include <utility>

#include "worker/protocol/wire/lost_lead.h"

namespace longhaul {

class LeadMemory {
 public:
  // CLOCK_MONOTONIC of this host, in nanoseconds, here and below. Nobody has led yet.
  explicit LeadMemory(std::int64_t now_ns) : without_since_ns_(now_ns) {}

  // A lead has answered: from there.
  void welcomed(PeerAddress at) { at_ = std::move(at); }
  // The connection to a lead that had answered is over. `silent`: it was not closed, nothing was heard. `only_waited`:
  // it had asked for an epoch, and did not lead.
  void lost(std::int64_t now_ns, bool silent, bool only_waited);

  std::int64_t without_since_ns() const { return without_since_ns_; }
  bool was_silent() const { return silent_; }
  // The newest that has led; nothing before one was lost.
  const LostLead& lost_lead() const { return lost_lead_; }

 private:
  PeerAddress at_;
  std::int64_t without_since_ns_;
  bool silent_ = false;
  LostLead lost_lead_;
};

}  // namespace longhaul
