// When faults come in a simulated training, of which kind and on which host: each from a sequence of its own, so that
// the same seed and trial meet the same faults at the same times whatever the policy does about them.
#pragma once

#include <cstdint>

#include "base/digest/philox.h"
#include "resiliency/simulate/scenario.h"
#include "resiliency/simulate/sim_hosts.h"

namespace longhaul {

class FaultDraws {
 public:
  FaultDraws(const Scenario& scenario, std::uint64_t seed, int trial)
      : scenario_(scenario),
        mtbf_s_(scenario.mtbf_s()),
        times_(seed, 4 * static_cast<std::uint64_t>(trial)),
        kinds_(seed, 4 * static_cast<std::uint64_t>(trial) + 1),
        hosts_(seed, 4 * static_cast<std::uint64_t>(trial) + 2) {}

  double next_after(double at_s, const SimHosts& hosts);
  const SimFault& kind();
  int host(const SimHosts& hosts);

 private:
  const Scenario& scenario_;
  double mtbf_s_;
  PhiloxSequence times_, kinds_, hosts_;
};

}  // namespace longhaul
