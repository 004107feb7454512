#include "orchestrator/scheduler/port/slurm_release.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "base/text/text.h"

namespace longhaul {

bool shows_less(const SlurmConfiguration& slurm, const std::string& what) {
  const std::vector<std::string> all = split(slurm.private_data, ',');
  return std::find(all.begin(), all.end(), what) != all.end();
}

std::string SlurmRelease::text() const {
  return format("{}.{:02}.{}", year, month, patch);
}

std::optional<SlurmRelease> slurm_release(const std::string& version) {
  std::size_t at = 0;
  while (at < version.size() && !std::isdigit(static_cast<unsigned char>(version[at]))) ++at;
  SlurmRelease release;
  int parts = 0;
  for (int* part : {&release.year, &release.month, &release.patch}) {
    if (at >= version.size() || !std::isdigit(static_cast<unsigned char>(version[at]))) break;
    *part = std::atoi(version.c_str() + at);
    ++parts;
    while (at < version.size() && std::isdigit(static_cast<unsigned char>(version[at]))) ++at;
    if (at >= version.size() || version[at] != '.') break;
    ++at;
  }
  if (parts < 2 || release.month > 12) return std::nullopt;
  return release;
}

std::string too_old_for_agents(const SlurmConfiguration& slurm) {
  const auto release = slurm_release(slurm.version);
  if (!release || *release >= release_of_agents) return {};
  return format(
      "Slurm {} lets a job's agents and its ranks wait for each other: only from {} on does --overlap share GPUs and "
      "memory",
      slurm.version, release_of_agents.text());
}

std::vector<std::string> slurm_release_notes(const SlurmConfiguration& slurm, bool beside, bool no_kill) {
  std::vector<std::string> notes;
  const auto release = slurm_release(slurm.version);
  if (const std::string old = too_old_for_agents(slurm); beside && !old.empty()) notes.push_back(old);
  if (no_kill && release && *release < release_of_no_kill)
    notes.push_back(format(
        "Slurm {} ends a job's extern step with the first node that the job outlives, and with it private /tmp and "
        "/dev/shm (job_container/tmpfs) and logins (pam_slurm_adopt) on all others; later steps may miss some of "
        "what is left: fixed in {}",
        slurm.version, release_of_no_kill.text()));
  if (no_kill && slurm.stepmgr)
    notes.emplace_back(
        "the first node of a job makes its steps (enable_stepmgr): a job outlives the loss of any other node, and ends "
        "with that one; the stage goes on in another job");
  return notes;
}

}  // namespace longhaul
