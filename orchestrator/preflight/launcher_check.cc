#include "orchestrator/preflight/launcher_check.h"

#include <algorithm>

#include "base/text/text.h"
#include "orchestrator/scheduler/port/mpi_types.h"
#include "orchestrator/scheduler/port/slurm_release.h"

namespace longhaul {
namespace {

bool launcher_has(const std::vector<std::string>& launcher, const std::string& argument) {
  return std::find(launcher.begin(), launcher.end(), argument) != launcher.end();
}

bool needs_mpi(const JobPlan& job, const std::string& mpi) {
  const std::string argument = "--mpi=" + mpi;
  return launcher_has(job.launcher, argument) ||
         std::any_of(job.steps.begin(), job.steps.end(),
                     [&](const JobStep& step) { return launcher_has(step.launcher, argument); });
}

bool has_agents(const JobPlan& job) {
  return !job.agent_launcher.empty();
}

bool outlives_nodes(const JobPlan& job) {
  return std::any_of(job.directives.begin(), job.directives.end(),
                     [](const Directive& directive) { return directive.option == "no-kill"; });
}

}  // namespace

void check_mpi_types(const Site& site, const std::vector<JobPlan>& jobs, const std::vector<std::string>& known,
                     Diagnostics& diagnostics) {
  const std::string& mpi = site.config.launcher.mpi;
  const std::string remedy = mpi_type_remedy(mpi, known);
  if (remedy.empty() || std::none_of(jobs.begin(), jobs.end(), [&](const JobPlan& job) { return needs_mpi(job, mpi); }))
    return;
  const auto origin = site.origins.find("launcher.mpi");
  const SourcePos place = origin != site.origins.end()
                              ? origin->second.where
                              : SourcePos{site.files.empty() ? "site " + site.config.name : site.files.front(), 0, 0};
  diagnostics.add(place, "launcher.mpi = \"" + mpi + "\": srun takes no --mpi=" + mpi, remedy);
}

void check_slurm_release(const RunPlan& plan, const std::vector<JobPlan>& jobs, const SlurmConfiguration& slurm,
                         Diagnostics& diagnostics) {
  const std::string old = too_old_for_agents(slurm);
  if (old.empty()) return;
  for (std::size_t i = 0; i < jobs.size(); ++i)
    if (has_agents(jobs[i]))
      return diagnostics.add(plan.stages[i].place_of("nodes"), old, "use jobs of one node, or a newer Slurm");
}

std::vector<std::string> notes_on_slurm(const std::vector<JobPlan>& jobs, const SlurmConfiguration& slurm) {
  return slurm_release_notes(slurm, std::any_of(jobs.begin(), jobs.end(), has_agents),
                             std::any_of(jobs.begin(), jobs.end(), outlives_nodes));
}

}  // namespace longhaul
