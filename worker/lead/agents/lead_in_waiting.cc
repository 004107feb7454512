#include "worker/lead/agents/lead_in_waiting.h"

#include <algorithm>

namespace longhaul {
namespace {

// An agent that has lost its lead turns to the standby within this time, if it lives.
constexpr std::int64_t turns_within_ns = 400'000'000;

}  // namespace

std::int64_t missing_since_ns(const MissingHost& host, std::int64_t waits_since_ns, std::int64_t lost_since_ns) {
  if (lost_since_ns <= 0) return waits_since_ns;
  if (host.gone) return std::min(lost_since_ns, waits_since_ns);
  if (!host.kernel_silent) return waits_since_ns;
  return std::clamp(lost_since_ns, waits_since_ns - turns_within_ns, waits_since_ns);
}

LeadInWaiting::LeadInWaiting(LeadEpoch asks, std::string lost_host, LostLead lost, const Clock& clock)
    : asks_(std::move(asks)),
      lost_host_(std::move(lost_host)),
      lost_(std::move(lost)),
      since_ns_(clock.monotonic_ns()) {
  if (!lost_.at.address.empty()) knocks_.emplace(lost_.at, clock);
}

void LeadInWaiting::look() {
  if (knocks_) knocks_->look();
}

std::int64_t LeadInWaiting::missing_since(const std::string& host, const std::set<std::string>& gone) const {
  const bool silent = host == lost_host_ && knocks_ && !knocks_->answers();
  return missing_since_ns({gone.contains(host), silent}, since_ns_, lost_.since_ns);
}

}  // namespace longhaul
