// Which ranks stand still because of a file system. How long that takes says nothing about a rank or its host: a
// metadata server that fails over is silent for minutes, and all that work with it wait.
#pragma once

#include <string_view>
#include <vector>

#include "resiliency/beat/heartbeat_page.h"
#include "resiliency/detect/hang/rank_observation.h"

namespace longhaul {

// Sections of our own programs that read or write files of the run; what a step does (`micro_batch`) reads its data,
// too, and is no such section: most of what stands still there is the device's or the network's.
constexpr bool touches_files(std::string_view section) {
  constexpr std::string_view all[] = {"initialize",          "load",      beat_checkpoint,
                                      beat_checkpoint_write, "milestone", "export"};
  for (const std::string_view one : all)
    if (section == one) return true;
  return false;
}

// Whether ranks of several hosts are blocked in the kernel: then it is the storage, and no host.
inline bool are_several_hosts_blocked(const std::vector<RankObservation>& ranks) {
  const RankObservation* first = nullptr;
  for (const RankObservation& seen : ranks) {
    if (seen.process != ProcessState::blocked) continue;
    if (first && seen.host != first->host) return true;
    first = &seen;
  }
  return false;
}

inline bool waits_for_storage(const RankObservation& seen, bool several_hosts_blocked) {
  if (seen.beat.section == beat_checkpoint_write && !is_held(seen.process)) return true;
  return seen.process == ProcessState::blocked && (several_hosts_blocked || touches_files(seen.beat.section));
}

}  // namespace longhaul
