#include "orchestrator/job/job_plan.h"

#include <set>

#include "base/files/file_query.h"
#include "base/text/text.h"
#include "orchestrator/job/launcher_arguments.h"
#include "orchestrator/job/request/job_class.h"
#include "orchestrator/job/request/job_directives.h"
#include "orchestrator/job/request/job_prologue.h"
#include "orchestrator/job/request/sbatch_text.h"
#include "orchestrator/job/request/step_plan.h"

namespace longhaul {
namespace {

void check_class(const JobSources& from) {
  const std::string& wanted = from.job().job_class;
  if (wanted.empty() || !from.job_class.name.empty() || !from.config().is_slurm()) return;
  std::vector<std::string> names;
  for (const JobClass& one : from.config().classes) names.push_back(one.name);
  const std::string nearest = nearest_word(wanted, names);
  from.problem("job.class", from.site_text() + " has no class '" + wanted + "'",
               !nearest.empty() ? "did you mean '" + nearest + "'?"
               : names.empty()  ? "its file has no [classes.NAME]"
                                : "classes: " + join(names, ", "));
}

void plan_launcher(const JobSources& from, JobPlan& plan) {
  const SiteConfig& config = from.config();
  const JobOptions& job = from.job();
  const bool in_step = !job.container.empty() && srun_starts_container(config.container.runtime);
  const bool steps = !plan.steps.empty();
  plan.calls_mpi = calls_mpi(from.stage);
  if (config.launcher.kind == "srun" && steps) {
    for (JobStep& step : plan.steps) step.launcher = step_launcher(step, config, plan.gpus_per_node, job.no_kill);
    return;
  }
  if (steps && plan.nodes > 1)
    from.problem("step",
                 "steps on several nodes are started by srun, and " + from.site_text() + " has another launcher",
                 "use one node, or set launcher.kind = \"srun\" in the site file");
  const bool by_mpirun = config.launcher.kind != "srun";
  if (by_mpirun && in_step)
    from.problem("job.container", "containers of " + from.site_text() + " are started by srun, its ranks by mpirun",
                 "remove it, or set launcher.kind = \"srun\" in the site file");
  // On one node the lead calls mpirun itself.
  const bool on_one_node = plan.nodes + plan.spares == 1;
  if (steps || (by_mpirun && on_one_node) || (plan.ranks == 1 && !in_step && plan.spares == 0)) return;
  plan.launcher = rank_launcher(plan, config, !outlives_nodes_by(from.stage.common).empty());
  if (plan.nodes + plan.spares > 1)
    plan.agent_launcher = agent_launcher(plan.nodes + plan.spares, config, plan.gpus_per_node);
}

void check_image(const JobSources& from, const std::string& image) {
  if (!is_one_line(image) || starts_with(image, "-"))
    from.problem("job.container", "'" + one_line(image) + "' cannot name an image",
                 "use a path or the name of an image");
  else if (starts_with(image, "./") || starts_with(image, "../"))
    from.problem("job.container", "the image " + image + " is a relative path", "write the whole path");
  else if (starts_with(image, "/") && is_surely_absent(image))
    from.problem("job.container", "the image " + image + " does not exist", "make or copy it first");
}

void plan_container(const JobSources& from, JobPlan& plan) {
  const SiteConfig& config = from.config();
  const JobOptions& job = from.job();
  if (job.container.empty()) {
    if (!job.mounts.empty())
      from.problem("job.mounts", from.name("job.mounts") + " without job.container", "remove it, or name a container");
    return;
  }
  const std::string& runtime = config.container.runtime;
  if (runtime == "none") {
    from.problem(
        "job.container", from.site_text() + " says no container runtime",
        "set container.runtime in the site file: pyxis, apptainer, singularity, podman-hpc, shifter or cscs-edf");
    return;
  }
  const std::string& image = job.container;
  check_image(from, image);
  std::vector<std::string> mounts = config.container.mounts;
  mounts.insert(mounts.end(), job.mounts.begin(), job.mounts.end());
  for (const std::string& mount : job.mounts)
    if (!is_one_line(mount) || mount.find(',') != std::string::npos || mount.find(':') == std::string::npos ||
        starts_with(mount, ":"))
      from.problem("job.mounts", "'" + one_line(mount) + "' is not SRC:DST", "without commas and line ends");
  if (runtime == "cscs-edf" && !job.mounts.empty())
    from.problem("job.mounts", "an environment file of " + from.site_text() + " holds its own mounts",
                 "write them there");
  plan.container_image = image;
  plan.container_mounts = mounts;
  plan.container = container_arguments(config, image, mounts, plan.gpus_per_node > 0);
}

}  // namespace

JobPlan plan_job(const Site& site, const PlannedStage& stage, Diagnostics& diagnostics) {
  const JobSources from{site, stage, job_class_of(site.config, stage), diagnostics};
  check_class(from);
  JobPlan plan;
  plan.job_class = from.job_class.name;
  plan.running_max = from.job_class.max_running;
  static_cast<JobShape&>(plan) = shape_of(from);
  static_cast<JobLength&>(plan) = length_of(from, plan.nodes + plan.spares);
  if (site.config.is_slurm()) {
    JobDirectives lines(from);
    plan.partition = ask_for_route(from, lines);
    ask_for_resources(from, plan, lines);
    plan.requeue = ask_for_behaviour(from, plan, lines);
    ask_for_options(from, lines);
    plan.directives = lines.take();
    plan_launcher(from, plan);
  }
  plan_container(from, plan);
  plan.prologue = prologue_of(from);
  return plan;
}

std::vector<JobPlan> plan_jobs(const Site& site, const RunPlan& plan, Diagnostics& diagnostics) {
  Diagnostics all;
  std::vector<JobPlan> jobs;
  jobs.reserve(plan.stages.size());
  for (const PlannedStage& stage : plan.stages) jobs.push_back(plan_job(site, stage, all));
  std::set<std::string> seen;
  for (const Error& error : all.errors())
    if (seen.insert(error.message()).second) diagnostics.add(error);
  return jobs;
}

}  // namespace longhaul
