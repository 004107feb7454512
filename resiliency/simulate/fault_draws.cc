#include "resiliency/simulate/fault_draws.h"

#include <cmath>
#include <limits>

namespace longhaul {

// Exponential distances; by rejection, where lemons have been left.
double FaultDraws::next_after(double at_s, const SimHosts& hosts) {
  if (is_played_) {
    while (next_ < played_.size() && played_[next_].at_s < at_s) ++next_;
    return next_ < played_.size() ? played_[next_].at_s : std::numeric_limits<double>::infinity();
  }
  do at_s -= mtbf_s_ * std::log1p(-times_.next_uniform());
  while (hosts.lemons() > 0 && hosts_.next_uniform() >= hosts.hazard());
  return at_s;
}

const SimFault& FaultDraws::kind() {
  if (is_played_) return scenario_.faults[played_[next_].kind];
  double left = kinds_.next_uniform() / mtbf_s_;
  for (const SimFault& fault : scenario_.faults)
    if ((left -= scenario_.faults_per_s(fault)) < 0) return fault;
  return scenario_.faults.back();
}

// By rejection: a sound host is kept as often as it weighs less than a lemon.
int FaultDraws::host(const SimHosts& hosts) {
  if (is_played_) return played_[next_++].host;
  const double lemon = scenario_.cluster.lemon_factor;
  for (int tries = 0; tries < 1000; ++tries) {
    const int host = hosts.running()[hosts_.next_below(hosts.running().size())];
    if (lemon <= 1 || hosts.is_lemon(host) || hosts_.next_uniform() * lemon < 1) return host;
  }
  return hosts.running().front();
}

}  // namespace longhaul
