// When faults come in a simulated training, of which kind and on which host: each from a sequence of its own, so that
// the same seed and trial meet the same faults at the same times whatever the policy does about them.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/digest/philox.h"
#include "resiliency/simulate/scenario.h"
#include "resiliency/simulate/sim_hosts.h"

namespace longhaul {

// One that comes at its time, whatever was drawn.
struct PlayedFault {
  double at_s = 0;
  std::size_t kind = 0;  // of the scenario's faults
  int host = 0;
};

class FaultDraws {
 public:
  FaultDraws(const Scenario& scenario, std::uint64_t seed, int trial)
      : scenario_(scenario),
        mtbf_s_(scenario.mtbf_s()),
        times_(seed, 4 * static_cast<std::uint64_t>(trial)),
        kinds_(seed, 4 * static_cast<std::uint64_t>(trial) + 1),
        hosts_(seed, 4 * static_cast<std::uint64_t>(trial) + 2) {}
  FaultDraws(const Scenario& scenario, std::vector<PlayedFault> played) : FaultDraws(scenario, 0, 0) {
    played_ = std::move(played), is_played_ = true;
  }

  bool is_played() const { return is_played_; }
  double next_after(double at_s, const SimHosts& hosts);
  const SimFault& kind();
  int host(const SimHosts& hosts);

 private:
  const Scenario& scenario_;
  double mtbf_s_;
  PhiloxSequence times_, kinds_, hosts_;
  bool is_played_ = false;
  std::vector<PlayedFault> played_;
  std::size_t next_ = 0;  // of them
};

}  // namespace longhaul
