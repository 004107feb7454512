// What a lead that waits to take over asks agents for, and what it knows of the lead that was lost. It knocks at the
// host where that one was: whether the kernel there answers distinguishes a dead host from a dead lead.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "base/system/clock.h"
#include "worker/protocol/wire/host_probe.h"
#include "worker/protocol/wire/lead_address.h"
#include "worker/protocol/wire/lost_lead.h"

namespace longhaul {

// Since when a host is missing that has not come to the lead that waits, CLOCK_MONOTONIC. Whoever has not turned to it
// so far has been missing since it waited. Where the former lead was, longer: but only if its kernel is silent as well,
// for a lead dies alone, too, and never so long that an agent there had no time to come here. Nodes that the scheduler
// has taken out of the job are missing since that lead was lost, whatever their kernels say. Pure.
struct MissingHost {
  bool gone = false;           // the scheduler has taken it out of the job
  bool kernel_silent = false;  // it is where the lost lead was, and nothing there answers
};
std::int64_t missing_since_ns(const MissingHost& host, std::int64_t waits_since_ns, std::int64_t lost_since_ns);

class LeadInWaiting {
 public:
  // `asks`: the epoch that it wants to lead in. `lost_host`: where the lead was that is lost; "": not known.
  LeadInWaiting(LeadEpoch asks, std::string lost_host, LostLead lost, const Clock& clock);

  const LeadEpoch& asks() const { return asks_; }
  const std::string& lost_host() const { return lost_host_; }
  const PeerAddress& lost_at() const { return lost_.at; }
  void look();  // knocks; called often
  // `gone`: nodes that the scheduler has taken out of the job.
  std::int64_t missing_since(const std::string& host, const std::set<std::string>& gone) const;

 private:
  LeadEpoch asks_;
  std::string lost_host_;
  LostLead lost_;
  std::int64_t since_ns_;
  std::optional<HostProbe> knocks_;
};

}  // namespace longhaul
