// What a fault belongs to: the smallest thing that has to be left out, repaired or changed. Decides who is accused (a
// host is suspected for host, gpu and link faults, never for user faults) and the cheapest tier that can help.
#pragma once

#include <string_view>

namespace longhaul {

enum class FaultScope {
  rank,  // one process; its host and GPU are not accused
  gpu,   // one device of a host
  host,  // a node with all that runs on it
  link,  // a connection between two of them: NVLink, NIC, switch
  job,   // the allocation as a whole: wall time, preemption, shared file system
  user,  // what was asked for: input, settings, program
};

constexpr const char* to_string(FaultScope scope) {
  switch (scope) {
    case FaultScope::rank: return "rank";
    case FaultScope::gpu: return "gpu";
    case FaultScope::host: return "host";
    case FaultScope::link: return "link";
    case FaultScope::job: return "job";
    case FaultScope::user: return "user";
  }
  return "unknown";
}

}  // namespace longhaul
