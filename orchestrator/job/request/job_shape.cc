#include "orchestrator/job/request/job_shape.h"

#include <algorithm>

#include "base/text/text.h"
#include "orchestrator/job/request/job_class.h"
#include "orchestrator/job/request/step_plan.h"

namespace longhaul {
namespace {

void plan_ranks(const JobSources& from, JobShape& shape) {
  const JobOptions& job = from.job();
  if (!shape.steps.empty()) {
    shape.ranks_per_node = ranks_on_node(shape.steps);
    shape.ranks = shape.ranks_per_node * shape.nodes;
    return;
  }
  shape.ranks = from.stage.common.ranks;
  shape.ranks_per_node = job.ranks_per_node > 0 ? job.ranks_per_node : std::max(1, shape.ranks / shape.nodes);
  if (shape.ranks_per_node * shape.nodes != shape.ranks)
    from.problem(job.ranks_per_node > 0 ? "job.ranks_per_node" : "ranks",
                 format("{} = {} on {} node{} is not {} a node", from.name("ranks"), shape.ranks, shape.nodes,
                        shape.nodes == 1 ? "" : "s", shape.ranks_per_node),
                 format("use nodes = {}, or ranks = {}", std::max(1, shape.ranks / shape.ranks_per_node),
                        shape.ranks_per_node * shape.nodes));
}

// A spare takes the place of a node that fails: another launch, on other nodes of the same job.
void plan_spares(const JobSources& from, JobShape& shape) {
  const int spares = from.stage.common.resiliency.spares;
  if ((spares == 0 && !from.stage.common.resiliency.shrink) || !from.config().is_slurm()) return;
  const std::string where = spares > 0 ? "resiliency.spares" : "resiliency.shrink";
  if (spares > shape.nodes)
    from.problem(where,
                 format("{} = {}: more spares than the {} nodes that work", from.name(where), spares, shape.nodes),
                 "a spare for every node is the most that can be used");
  if (!shape.steps.empty()) from.problem(where, "several programs in one job have nodes of their own", "remove it");
  shape.spares = spares;
}

void check_nodes_of_class(const JobSources& from, const JobShape& shape) {
  if (from.job_class.max_nodes > 0 && shape.nodes + shape.spares > from.job_class.max_nodes)
    from.problem(
        "nodes",
        format("{} = {}{}: a job of the class '{}' of {} has at most {} node{}", from.name("nodes"), shape.nodes,
               shape.spares > 0 ? format(" and {} of spares", shape.spares) : "", from.job_class.name, from.site_text(),
               from.job_class.max_nodes, from.job_class.max_nodes == 1 ? "" : "s"),
        "use fewer nodes, or another job.class");
  if (shape.nodes < from.job_class.min_nodes)
    from.problem("nodes",
                 format("{} = {}: a job of the class '{}' of {} has at least {} nodes", from.name("nodes"), shape.nodes,
                        from.job_class.name, from.site_text(), from.job_class.min_nodes),
                 "use more nodes, or another job.class");
}

void plan_gpus(const JobSources& from, const std::vector<CommandStep>& asked, JobShape& shape) {
  const SiteConfig& config = from.config();
  const JobOptions& job = from.job();
  const bool known = from.job_class.gpus_per_node >= 0 || from.site.origins.count("node.gpus") > 0;
  const int of_node = gpus_of_class(config, from.job_class);
  const bool whole =
      from.exclusive().value == "yes" || config.can.shared_nodes == "no" || config.ask.gpu_request == "none";
  const int wanted = shape.steps.empty() ? shape.ranks_per_node : gpus_wanted(asked, shape.steps, of_node);
  shape.gpus_per_node = whole ? of_node : known ? std::min(of_node, wanted) : shape.steps.empty() ? 0 : wanted;
  if (job.gpus_per_node >= 0) shape.gpus_per_node = job.gpus_per_node;
  if (config.is_slurm())
    if (const auto over = share_gpus(asked, shape.gpus_per_node, shape.steps))
      from.problem(over->key, over->what, over->hint);
  if (known && config.is_slurm() && job.gpus_per_node > of_node)
    from.problem("job.gpus_per_node",
                 format("{} = {}: nodes of {} have {} for the class '{}'", from.name("job.gpus_per_node"),
                        job.gpus_per_node, from.site_text(), of_node, from.job_class.name),
                 format("use {} or fewer", of_node));
}

void plan_step_cpus(const JobSources& from, const std::vector<CommandStep>& asked, const CpuShare& share, int of_node,
                    JobShape& shape) {
  const SiteConfig& config = from.config();
  share_cpus(asked, share.of_job, config.node.threads_per_core, shape.steps);
  const int needed = std::max(cpus_on_node(shape.steps), share.bound ? share.of_job : 1);
  const bool by_task = config.ask.gpu_request == "gpus_per_task" && shape.gpus_per_node % shape.ranks_per_node != 0;
  if (needed % shape.ranks_per_node != 0 || by_task) shape.ranks_per_node = 1;  // one place for all
  shape.ranks = shape.nodes * shape.ranks_per_node;
  shape.cpus_per_rank = needed / shape.ranks_per_node;
  if (config.is_slurm() && of_node > 0 && needed > of_node)
    from.problem("step",
                 format("the steps need {} CPUs on a node: nodes of {} have {}", needed, from.site_text(), of_node),
                 "use fewer ranks or threads in a step");
}

// Never fewer CPUs than a rank has threads.
void plan_cpus(const JobSources& from, const std::vector<CommandStep>& asked, JobShape& shape) {
  const SiteConfig& config = from.config();
  const JobClass& of = from.job_class;
  const int of_node = of.cores > 0 ? of.cores * config.node.threads_per_core : config.node.cpus();
  const int asked_per_gpu = of.cpus_per_gpu >= 0 ? of.cpus_per_gpu : config.ask.cpus_per_gpu;
  int threads = from.stage.common.threads;
  for (std::size_t i = 0; i < asked.size(); ++i)  // 0: somebody wants a share
    threads = i == 0 ? asked[i].threads : std::min(threads, asked[i].threads);
  const CpuShare share = cpu_share(
      {of_node, gpus_of_class(config, of), shape.gpus_per_node, asked_per_gpu, threads, shape.ranks_per_node});
  if (!shape.steps.empty()) return plan_step_cpus(from, asked, share, of_node, shape);
  shape.cpus_per_rank = std::max({1, threads, share.per_rank});
  if (!config.is_slurm() || of_node == 0 || shape.cpus_per_rank * shape.ranks_per_node <= of_node) return;
  if (threads >= share.per_rank || !share.bound)
    from.problem("threads",
                 format("{} ranks x {} CPUs on a node: nodes of {} have {}", shape.ranks_per_node, shape.cpus_per_rank,
                        from.site_text(), of_node),
                 format("use threads = {}, or {} of these ranks on a node",
                        std::max(1, of_node / std::max(1, shape.ranks_per_node)),
                        std::max(1, of_node / std::max(1, shape.cpus_per_rank))));
  else
    from.problem("ranks",
                 format("{} ranks cannot share {} GPUs with {} CPUs each evenly on nodes of {} CPUs",
                        shape.ranks_per_node, shape.gpus_per_node, asked_per_gpu, of_node),
                 "use as many ranks on a node as GPUs, or one");
}

}  // namespace

CpuShare cpu_share(const NodeShare& node) {
  CpuShare share;
  share.bound = node.job_gpus > 0 && node.cpus_per_gpu > 0;
  if (share.bound)
    share.of_job = node.job_gpus * node.cpus_per_gpu;
  else if (node.job_gpus > 0 && node.gpus > 0 && node.cpus > 0)
    share.of_job = node.cpus * std::min(node.job_gpus, node.gpus) / node.gpus;
  else if (node.cpus > 0 && node.threads == 0)
    share.of_job = node.cpus;
  share.per_rank = share.bound ? (share.of_job + node.ranks - 1) / node.ranks : std::max(1, share.of_job / node.ranks);
  return share;
}

std::string outlives_nodes_by(const StageCommon& common) {
  if (common.job.no_kill) return "job.no_kill";
  if (common.resiliency.spares > 0) return "resiliency.spares";
  return common.resiliency.shrink ? "resiliency.shrink" : "";
}

JobShape shape_of(const JobSources& from) {
  JobShape shape;
  shape.nodes = from.stage.common.nodes;
  const std::vector<CommandStep> asked = steps_asked(from.stage);
  shape.steps = lay_out_steps(asked, shape.nodes, !from.config().is_slurm());
  plan_ranks(from, shape);
  plan_spares(from, shape);
  if (from.config().is_slurm()) check_nodes_of_class(from, shape);
  plan_gpus(from, asked, shape);
  plan_cpus(from, asked, shape);
  return shape;
}

}  // namespace longhaul
