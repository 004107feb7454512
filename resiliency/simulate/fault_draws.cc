#include "resiliency/simulate/fault_draws.h"

#include <cmath>

namespace longhaul {

// Exponential distances; by rejection, where lemons have been left.
double FaultDraws::next_after(double at_s, const SimHosts& hosts) {
  do at_s -= mtbf_s_ * std::log1p(-times_.next_uniform());
  while (hosts.lemons() > 0 && hosts_.next_uniform() >= hosts.hazard());
  return at_s;
}

const SimFault& FaultDraws::kind() {
  double left = kinds_.next_uniform() / mtbf_s_;
  for (const SimFault& fault : scenario_.faults)
    if ((left -= scenario_.faults_per_s(fault)) < 0) return fault;
  return scenario_.faults.back();
}

// By rejection: a sound host is kept as often as it weighs less than a lemon.
int FaultDraws::host(const SimHosts& hosts) {
  const double lemon = scenario_.cluster.lemon_factor;
  for (int tries = 0; tries < 1000; ++tries) {
    const int host = hosts.running()[hosts_.next_below(hosts.running().size())];
    if (lemon <= 1 || hosts.is_lemon(host) || hosts_.next_uniform() * lemon < 1) return host;
  }
  return hosts.running().front();
}

}  // namespace longhaul
