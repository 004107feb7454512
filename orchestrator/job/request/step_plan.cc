#include "orchestrator/job/request/step_plan.h"

#include <algorithm>

#include "base/text/text.h"

namespace longhaul {
namespace {

// A step that does not find what it needs would wait for ever, and the others for it.
constexpr int resources_wait_s = 300;

bool share_nodes(const std::vector<JobStep>& steps) {
  return !steps.empty() && !steps.front().own_nodes;
}

// The largest of the steps' values, or their sum where all are on the same nodes.
template <class OfStep>
int on_node(const std::vector<JobStep>& steps, OfStep&& of_step) {
  int most = 0, sum = 0;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    most = std::max(most, of_step(i));
    sum += of_step(i);
  }
  return share_nodes(steps) ? sum : most;
}

}  // namespace

std::vector<CommandStep> steps_asked(const PlannedStage& stage) {
  if (!stage.settings.find("step")) return {};
  Diagnostics reported;  // when the plan was made
  return command_fields().parse(stage.settings, "stage." + stage.stage, reported).steps;
}

std::vector<JobStep> lay_out_steps(const std::vector<CommandStep>& asked, int nodes, bool one_machine) {
  std::vector<JobStep> steps;
  int next_node = 0;
  for (const CommandStep& one : asked) {
    JobStep step;
    step.name = one.name;
    step.service = one.service;
    step.ranks = one.ranks;
    step.own_nodes = !one_machine && one.nodes > 0;
    step.nodes = one_machine ? 1 : step.own_nodes ? one.nodes : nodes;
    step.first_node = step.own_nodes ? next_node : 0;
    next_node += one.nodes;
    steps.push_back(std::move(step));
  }
  return steps;
}

int ranks_on_node(const std::vector<JobStep>& steps) {
  return on_node(steps, [&](std::size_t i) { return steps[i].ranks_per_node(); });
}

int cpus_on_node(const std::vector<JobStep>& steps) {
  return on_node(steps, [&](std::size_t i) { return steps[i].ranks_per_node() * steps[i].cpus_per_rank; });
}

int gpus_wanted(const std::vector<CommandStep>& asked, const std::vector<JobStep>& steps, int of_node) {
  return on_node(steps, [&](std::size_t i) {
    return asked[i].gpus_per_node >= 0 ? asked[i].gpus_per_node : std::min(steps[i].ranks_per_node(), of_node);
  });
}

std::optional<StepProblem> share_gpus(const std::vector<CommandStep>& asked, int gpus, std::vector<JobStep>& steps) {
  int left = gpus, ranks_left = 0;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const int said = asked[i].gpus_per_node;
    left -= std::max(0, said);
    if (said < 0) ranks_left += steps[i].ranks_per_node();
    if (said > gpus || (share_nodes(steps) && left < 0))
      return StepProblem{
          "step." + asked[i].name + ".gpus_per_node",
          format("the step {} asks for {} GPUs on a node: {}", asked[i].name, said,
                 left < 0 && said <= gpus ? format("the steps before it leave {} of {}", left + said, gpus)
                                          : format("the job has {}", gpus)),
          "use fewer, or nodes of its own"};
  }
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const int share = share_nodes(steps) ? left * steps[i].ranks_per_node() / std::max(1, ranks_left) : gpus;
    steps[i].gpus_per_node = asked[i].gpus_per_node >= 0 ? asked[i].gpus_per_node : share;
  }
  return std::nullopt;
}

void share_cpus(const std::vector<CommandStep>& asked, int cpus, int threads_per_core, std::vector<JobStep>& steps) {
  int left = cpus, ranks_left = 0;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (asked[i].threads > 0)
      left -= steps[i].ranks_per_node() * asked[i].threads;
    else
      ranks_left += steps[i].ranks_per_node();
  }
  for (std::size_t i = 0; i < steps.size(); ++i) {
    int share = share_nodes(steps) ? left / std::max(1, ranks_left) : cpus / steps[i].ranks_per_node();
    if (share > threads_per_core) share -= share % std::max(1, threads_per_core);  // a core serves one step only
    steps[i].cpus_per_rank = asked[i].threads > 0 ? asked[i].threads : std::max(1, share);
  }
}

std::vector<JobStep> steps_on_one_machine(const PlannedStage& stage, int cores) {
  const std::vector<CommandStep> asked = steps_asked(stage);
  std::vector<JobStep> steps = lay_out_steps(asked, 1, true);
  share_cpus(asked, cores, 1, steps);
  return steps;
}

std::vector<std::string> step_gpu_options(const SiteConfig& site, int gpus_of_job, int gpus_of_step) {
  const std::string& request = site.ask.gpu_request;
  if (gpus_of_job <= 0 || request == "none") return {};
  if (gpus_of_step <= 0) return {"--gres=none"};
  const std::string type = site.ask.gpu_type.empty() ? "" : site.ask.gpu_type + ":";
  return {format("{}{}{}", request == "gres" ? "--gres=gpu:" : "--gpus-per-node=", type, gpus_of_step)};
}

std::vector<std::string> agent_launcher(int nodes, const SiteConfig& site, int gpus_of_job) {
  std::vector<std::string> arguments = {"srun",
                                        "--job-name=agents",
                                        "--overlap",
                                        "--mpi=none",
                                        format("--nodes={}", nodes),
                                        format("--ntasks={}", nodes),
                                        "--ntasks-per-node=1",
                                        "--cpus-per-task=1",
                                        "--mem=0",
                                        "--no-kill",
                                        "--kill-on-bad-exit=0",
                                        "--wait=0"};
  const std::vector<std::string> gpus = step_gpu_options(site, gpus_of_job, gpus_of_job);
  arguments.insert(arguments.end(), gpus.begin(), gpus.end());
  return arguments;
}

std::vector<std::string> step_launcher(const JobStep& step, const SiteConfig& site, int gpus_of_job, bool no_kill) {
  std::vector<std::string> arguments = {"srun",
                                        "--job-name=" + step.name,
                                        "--mpi=" + (step.ranks == 1 ? "none" : site.launcher.mpi),
                                        format("--nodes={}", step.nodes),
                                        format("--ntasks={}", step.ranks),
                                        format("--ntasks-per-node={}", step.ranks_per_node()),
                                        format("--cpus-per-task={}", step.cpus_per_rank)};
  arguments.push_back(format("--immediate={}", resources_wait_s));
  // Only what it asks for, beside the others; of the memory whatever the job has, as for programs side by side.
  if (!step.own_nodes) arguments.insert(arguments.end(), {"--exact", "--mem=0"});
  const std::vector<std::string> gpus = step_gpu_options(site, gpus_of_job, step.gpus_per_node);
  arguments.insert(arguments.end(), gpus.begin(), gpus.end());
  if (!site.launcher.cpu_bind.empty()) arguments.push_back("--cpu-bind=" + site.launcher.cpu_bind);
  arguments.emplace_back("--kill-on-bad-exit=1");
  if (no_kill) arguments.emplace_back("--no-kill");
  arguments.insert(arguments.end(), site.launcher.options.begin(), site.launcher.options.end());
  return arguments;
}

}  // namespace longhaul
