// How fast a host is, measured before a job's first launch, and which hosts are slow beside the others.
//
// A host that is slow slows down all of a synchronous training, and mostly fails no check. What is measured here is the
// host's own: its cores, its memory, and how it exchanges bytes with others over TCP (fleet_exchange.h). GPUs and the
// network between them are measured by nobody yet, since this program links no CUDA.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "base/value/value.h"
#include "resiliency/health/health_finding.h"

namespace longhaul {

struct HostFigures {
  double gflops = 0;                            // f32 matrix product of one core, 1e9 operations/s; 0: not measured
  double gb_per_s = 0;                          // memory of one core: a copy, bytes read and written, 1e9 bytes/s
  std::optional<double> network_mb_per_s = {};  // with other hosts, 1e6 bytes/s; none: there were no others to ask
  bool measured() const { return gflops > 0 && gb_per_s > 0; }
};
// The best of several short rounds, for other processes only ever make a round slower. Takes about `ms`.
HostFigures measure_host(int ms = 200);

Value to_value(const HostFigures& figures);
HostFigures host_figures_from_value(const Value& value);

// By host: what of it is below `floor` (share, 0.7) of the median of all that were measured. At least three are needed,
// and the figure has to lie more than three deviations (1.4826 * MAD) below the median, too: a fleet of mixed machines
// has no slow ones.
std::map<std::string, HealthFinding> slow_hosts(const std::map<std::string, HostFigures>& fleet, double floor);

}  // namespace longhaul
