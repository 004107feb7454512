// GPUs of the job that nobody watches: its checks see fewer of them than the job has, for the site's cgroups hide them
// from the agents' step, or no driver's library is there. Faults of those GPUs are not found before they stop a rank.
// Pure: what is seen and the time come from outside.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "contracts/events/warning_event.h"
#include "worker/protocol/node/node_report.h"

namespace longhaul {

struct GpuObservation {
  std::string host;
  int looks = 0;    // whole ones of this host's checks so far; 0: nothing is known yet
  int watched = 0;  // GPUs that they see
  std::string why;  // they see no more; "": they did not say
};
GpuObservation gpu_observation(const std::string& host, const HealthReport& health);

class UnwatchedGpus {
 public:
  static constexpr std::int64_t patience_ms = 60'000;  // a driver that is slow to start

  // `expected`: GPUs that the job has on each node. 0: there is never a warning.
  explicit UnwatchedGpus(int expected) : expected_(expected) {}

  // The warnings that are due: `gpus_not_watched` once for the hosts that it became known of together, and
  // `gpus_not_watched_over` with the same hosts once all of them are watched.
  std::vector<WarningEvent> look(std::int64_t now_ms, const std::vector<GpuObservation>& sights);

 private:
  struct Host {
    std::int64_t since_ms = 0;  // not watched
    bool reported = false;
  };
  int expected_;
  std::map<std::string, Host> hosts_;               // that are not watched
  std::vector<std::vector<std::string>> reported_;  // hosts of each warning that stands
};

}  // namespace longhaul
