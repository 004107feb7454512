// Releases of Slurm by number, and which of them jobs need for what. Pure.
#pragma once

#include <compare>
#include <optional>
#include <string>
#include <vector>

#include "orchestrator/scheduler/port/slurm_port.h"

namespace longhaul {

struct SlurmRelease {
  int year = 0, month = 0, patch = 0;
  auto operator<=>(const SlurmRelease&) const = default;
  std::string text() const;  // "23.02.6"
};
// "22.05.8", "23.11.0-0rc1", "slurm 24.11.5": nullopt where no number of that kind is in it.
std::optional<SlurmRelease> slurm_release(const std::string& version);

// Agents work beside the ranks: --overlap shares GPUs and memory with steps that do not say it (before, both wait for
// each other for ever). CHANGELOG of 22.05.0.
inline constexpr SlurmRelease release_of_agents{22, 5, 0};
// Of a job that outlives a node (--no-kill) later steps may use all that is left (23.02.3), and the extern step stays
// on the other nodes: with it private /tmp and /dev/shm, and logins (23.02.6). CHANGELOG of 23.02.
inline constexpr SlurmRelease release_of_no_kill{23, 2, 6};

// What Slurm there means for jobs, a sentence each. `beside`: some have agents beside their ranks; `no_kill`: some are
// to outlive a node.
std::vector<std::string> slurm_release_notes(const SlurmConfiguration& slurm, bool beside, bool no_kill);
// Why jobs with agents cannot work there; "": they can, or the release is not known.
std::string too_old_for_agents(const SlurmConfiguration& slurm);

}  // namespace longhaul
