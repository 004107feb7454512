#include "worker/agent/leads/lead_choice.h"

#include <utility>

namespace longhaul {

Result<LeadAddress> LeadChoice::next(const LeadFilesSeen& seen, const LeadEpoch& epoch,
                                     const std::function<bool(const std::string& host)>& is_known, bool lost) {
  const auto choose = [&]() -> Result<LeadAddress> {
    const bool again = std::exchange(again_, false);
    const bool later = seen.lead.ok() && seen.lead->lead_epoch() > epoch;
    if (later && is_known(seen.lead->host)) return asks_a_standby_ = false, seen.lead;
    if (again && asked_.port > 0) return LeadAddress{"", epoch.number, asked_.host, asked_.port};
    asks_a_standby_ = lost && !asks_a_standby_;
    if (!asks_a_standby_) return seen.lead;
    asks_by_file_ = !knows_a_standby() || (!asks_by_file_ && seen.standby.ok());
    if (!asks_by_file_) return LeadAddress{"", epoch.number, standby_host_, standby_port_};
    return seen.standby;
  };
  Result<LeadAddress> chosen = choose();
  if (chosen.ok()) asked_ = *chosen;
  return chosen;
}

void LeadChoice::know_standby(const std::string& host, int port, const std::string& address) {
  standby_host_ = host, standby_port_ = port, standby_address_ = address;
}

std::string LeadChoice::said_address_of(const std::string& host) const {
  return host == standby_host_ ? standby_address_ : std::string();
}

}  // namespace longhaul
