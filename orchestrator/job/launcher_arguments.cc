#include "orchestrator/job/launcher_arguments.h"

#include "base/files/files.h"
#include "base/text/text.h"
#include "contracts/records/attempt.h"
#include "orchestrator/job/job_plan.h"
#include "orchestrator/job/request/step_plan.h"

namespace longhaul {
namespace {

constexpr const char* node_memory = "/dev/shm";

}  // namespace

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
  std::vector<std::string> arguments = {"mpirun",
                                        "-np",
                                        std::to_string(plan.ranks),
                                        "--map-by",
                                        format("ppr:{}:node", plan.ranks_per_node),
                                        "--bind-to",
                                        "none",
                                        "--mca",
                                        "plm_slurm_args",
                                        join(daemons, " ")};
  arguments.insert(arguments.end(), site.launcher.options.begin(), site.launcher.options.end());
  return arguments;
}

}  // namespace

std::vector<std::string> rank_launcher(const JobPlan& plan, const SiteConfig& site, bool no_kill) {
  if (site.launcher.kind == "mpirun") return by_mpirun(plan, site);
  std::vector<std::string> arguments = {"srun",
                                        "--mpi=" + (plan.ranks == 1 || !plan.calls_mpi ? "none" : site.launcher.mpi),
                                        format("--nodes={}", plan.nodes),
                                        format("--ntasks={}", plan.ranks),
                                        format("--ntasks-per-node={}", plan.ranks_per_node),
                                        format("--cpus-per-task={}", plan.cpus_per_rank)};
  const std::vector<std::string> gpus = step_gpu_options(site, plan.gpus_per_node, plan.gpus_per_node);
  arguments.insert(arguments.end(), gpus.begin(), gpus.end());
  if (!site.launcher.cpu_bind.empty()) arguments.push_back("--cpu-bind=" + site.launcher.cpu_bind);
  arguments.emplace_back("--kill-on-bad-exit=1");
  if (no_kill) arguments.emplace_back("--no-kill");
  arguments.insert(arguments.end(), site.launcher.options.begin(), site.launcher.options.end());
  return arguments;
}

bool srun_starts_container(const std::string& runtime) {
  return runtime == "pyxis" || runtime == "cscs-edf";
}

namespace {

void add_each(std::vector<std::string>& arguments, const std::string& option, const std::vector<std::string>& mounts) {
  for (const std::string& mount : mounts) arguments.insert(arguments.end(), {option, mount});
}

// enroot makes a /dev/shm of its own, in which nobody else sees a page.
std::vector<std::string> by_pyxis(const std::string& image, std::vector<std::string> mounts) {
  if (!not_mounted({node_memory}, mounts).empty()) mounts.push_back(std::string(node_memory) + ":" + node_memory);
  return {"--container-image=" + image, "--container-mounts=" + join(mounts, ","),
          std::string("--container-workdir") + container_folder_mark};
}

// A process of its own beside the ranks of other containers: the agent outside knows it by its number, pages lie in the
// host's shared memory, ranks reach each other by the host's network.
std::vector<std::string> by_podman(const std::vector<std::string>& mounts, bool with_gpus) {
  std::vector<std::string> arguments = {"podman-hpc", "run",        "--rm",      "--env-host",
                                        "--net=host", "--ipc=host", "--pid=host"};
  if (with_gpus) arguments.emplace_back("--gpu");
  add_each(arguments, "--volume", mounts);
  arguments.push_back(std::string("--workdir") + container_folder_mark);
  return arguments;
}

// It shows /dev as it is outside.
std::vector<std::string> by_shifter(const std::string& image, const std::vector<std::string>& mounts, bool with_gpus) {
  std::vector<std::string> arguments = {"shifter", "--image=" + image};
  if (with_gpus) arguments.emplace_back("--module=gpu");
  if (!mounts.empty()) arguments.push_back("--volume=" + join(mounts, ";"));
  arguments.push_back(std::string("--workdir") + container_folder_mark);
  return arguments;
}

}  // namespace

std::vector<std::string> container_arguments(const SiteConfig& site, const std::string& image,
                                             const std::vector<std::string>& mounts, bool with_gpus) {
  const std::string& runtime = site.container.runtime;
  std::vector<std::string> arguments;
  bool image_last = true;
  if (runtime == "pyxis") {
    arguments = by_pyxis(image, mounts), image_last = false;
  } else if (runtime == "cscs-edf") {
    arguments.push_back("--environment=" + image), image_last = false;
  } else if (runtime == "podman-hpc") {
    arguments = by_podman(mounts, with_gpus);
  } else if (runtime == "shifter") {
    arguments = by_shifter(image, mounts, with_gpus), image_last = false;
  } else {  // apptainer and singularity are one
    arguments = {runtime, "exec"};
    if (with_gpus) arguments.emplace_back("--nv");
    add_each(arguments, "--bind", mounts);
  }
  arguments.insert(arguments.end(), site.container.options.begin(), site.container.options.end());
  if (image_last) arguments.push_back(image);
  return arguments;
}

Status mount_own_folders(JobPlan& plan, const SiteConfig& site, const OwnFolders& own) {
  if (plan.container_image.empty()) return {};
  if (site.container.runtime == "cscs-edf") return {};  // its file says what is mounted; it was read with the workflow
  LH_TRY(const std::vector<std::string> needed, folders_for_container(own));
  std::vector<std::string> mounts = plan.container_mounts;
  for (const std::string& folder : not_mounted(needed, mounts)) mounts.push_back(folder + ":" + folder);
  plan.container = container_arguments(site, plan.container_image, mounts, plan.gpus_per_node > 0);
  return {};
}

Status check_environment_file(const std::string& path, std::vector<std::string> needed) {
  needed.emplace_back(node_memory);
  if (!starts_with(path, "/")) return {};  // a name: where its file is, the container engine knows
  LH_TRY(const std::string text, read_file(path));
  LH_TRY(const auto listed, environment_mounts(text, path));
  if (!listed) return {};
  std::vector<std::string> lines;
  for (const std::string& folder : not_mounted(needed, *listed)) lines.push_back(format("\"{}:{}\"", folder, folder));
  if (lines.empty()) return {};
  return make_error(ErrorCode::invalid_input, "the environment file " + path + " does not mount what ranks need",
                    "add to its mounts: " + join(lines, ", "));
}

}  // namespace longhaul
