#include "orchestrator/controller/launch_words.h"

#include "base/text.h"
#include "orchestrator/controller/job_plan.h"
#include "orchestrator/controller/step_plan.h"

namespace longhaul {

std::string outlives_nodes_by(const StageCommon& common) {
  if (common.job.no_kill) return "job.no_kill";
  if (common.resiliency.spares > 0) return "resiliency.spares";
  return common.resiliency.shrink ? "resiliency.shrink" : "";
}

bool calls_mpi(const PlannedStage& stage) {
  if (stage.kind == "command" || !stage.settings.is_table()) return true;
  const bool on_gpus = stage.kind != "deploy" && stage.settings.get_string("device") == "gpu";
  return !on_gpus || stage.settings.get_string("communicator", "nccl") != "nccl";
}

namespace {

// Ranks in blocks, as many to each node. Open MPI starts its daemons by srun: beside the agents' step, and with the
// CPUs of the ranks that they start, for Slurm holds those to their daemon's. --host is added in the job.
std::vector<std::string> by_mpirun(const JobPlan& plan, const SiteConfig& site) {
  std::vector<std::string> daemons = {"--overlap", "--mem=0",
                                      format("--cpus-per-task={}", plan.ranks_per_node * plan.cpus_per_rank)};
  const std::vector<std::string> gpus = step_gpu_options(site, plan.gpus_per_node, plan.gpus_per_node);
  daemons.insert(daemons.end(), gpus.begin(), gpus.end());
  std::vector<std::string> words = {"mpirun",
                                    "-np",
                                    std::to_string(plan.ranks),
                                    "--map-by",
                                    format("ppr:{}:node", plan.ranks_per_node),
                                    "--bind-to",
                                    "none",
                                    "--mca",
                                    "plm_slurm_args",
                                    join(daemons, " ")};
  words.insert(words.end(), site.launcher.options.begin(), site.launcher.options.end());
  return words;
}

}  // namespace

std::vector<std::string> rank_launcher(const JobPlan& plan, const SiteConfig& site, bool no_kill) {
  if (site.launcher.kind == "mpirun") return by_mpirun(plan, site);
  std::vector<std::string> words = {"srun",
                                    "--mpi=" + (plan.ranks == 1 || !plan.calls_mpi ? "none" : site.launcher.mpi),
                                    format("--nodes={}", plan.nodes),
                                    format("--ntasks={}", plan.ranks),
                                    format("--ntasks-per-node={}", plan.ranks_per_node),
                                    format("--cpus-per-task={}", plan.cpus_per_rank)};
  const std::vector<std::string> gpus = step_gpu_options(site, plan.gpus_per_node, plan.gpus_per_node);
  words.insert(words.end(), gpus.begin(), gpus.end());
  if (!site.launcher.cpu_bind.empty()) words.push_back("--cpu-bind=" + site.launcher.cpu_bind);
  words.emplace_back("--kill-on-bad-exit=1");
  if (no_kill) words.emplace_back("--no-kill");
  words.insert(words.end(), site.launcher.options.begin(), site.launcher.options.end());
  return words;
}

std::vector<std::string> container_words(const SiteConfig& site, const std::string& image,
                                         const std::vector<std::string>& mounts, bool with_gpus) {
  const std::string& runtime = site.container.runtime;
  const bool own_program = runtime != "pyxis" && runtime != "cscs-edf";
  std::vector<std::string> words;
  if (runtime == "pyxis") {
    words.push_back("--container-image=" + image);
    if (!mounts.empty()) words.push_back("--container-mounts=" + join(mounts, ","));
  } else if (!own_program) {
    words.push_back("--environment=" + image);
  } else {
    words = {runtime, "exec"};
    if (with_gpus) words.emplace_back("--nv");
    for (const std::string& mount : mounts) words.insert(words.end(), {"--bind", mount});
  }
  words.insert(words.end(), site.container.options.begin(), site.container.options.end());
  if (own_program) words.push_back(image);
  return words;
}

}  // namespace longhaul
