#include "orchestrator/preflight/promised_gpus.h"

#include <algorithm>
#include <optional>
#include <set>

#include "base/text/text.h"
#include "orchestrator/job/request/job_class.h"
#include "orchestrator/scheduler/slurm/site_probe.h"

namespace longhaul {
namespace {

// The most that a node of these partitions has; nullopt: none of their nodes is known.
std::optional<int> most_gpus(const std::vector<std::string>& partitions, const std::vector<SlurmNode>& nodes) {
  std::optional<int> most;
  for (const SlurmNode& node : nodes)
    for (const std::string& of : split(node.partitions, ','))
      if (std::find(partitions.begin(), partitions.end(), of) != partitions.end())
        most = std::max(most.value_or(0), gpus_of_gres(node.gres).count);
  return most;
}

std::vector<std::string> partitions_of(const JobPlan& job, const std::vector<SlurmPartition>& partitions) {
  if (!job.partition.empty()) return split(job.partition, ',');
  const bool routed = std::any_of(job.directives.begin(), job.directives.end(), [](const Directive& one) {
    return one.option == "qos" || one.option == "constraint";
  });
  std::vector<std::string> usual;
  for (const SlurmPartition& one : partitions)
    if (one.is_default && !routed) usual.push_back(one.name);
  return usual;
}

}  // namespace

void check_promised_gpus(const Site& site, const RunPlan& plan, const std::vector<JobPlan>& jobs,
                         const std::vector<SlurmPartition>& partitions, const std::vector<SlurmNode>& nodes,
                         Diagnostics& diagnostics) {
  if (site.config.ask.gpu_request == "none") return;
  std::set<std::string> reported;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const JobPlan& job = jobs[i];
    const PlannedStage& stage = plan.stages[i];
    const std::vector<std::string> asked_of = partitions_of(job, partitions);
    const auto most = most_gpus(asked_of, nodes);
    if (job.gpus_per_node == 0 || !most || job.gpus_per_node <= *most) continue;
    const JobClass* one = site.config.find_class(job.job_class);
    const bool of_class = one && one->gpus_per_node >= 0;
    const bool by_stage = stage.common.job.gpus_per_node >= 0;
    const std::string key = of_class ? format("classes.{}.gpus_per_node", one->name) : "node.gpus";
    const auto origin = site.origins.find(key);
    const std::string has = format("the nodes of partition {} have {}, as slurmctld says", join(asked_of, ","),
                                   *most == 0 ? std::string("no GPUs") : format("at most {} GPUs", *most));
    const std::string says = by_stage ? format("stage.{}.job.gpus_per_node = {}", stage.stage, job.gpus_per_node)
                                      : format("site '{}': {} = {}", site.config.name, key,
                                               gpus_of_class(site.config, of_class ? *one : JobClass()));
    if (!reported.insert(says + has).second) continue;
    const SourcePos place =
        by_stage || origin == site.origins.end() ? stage.place_of("job.gpus_per_node") : origin->second.where;
    diagnostics.add(
        place, says + ", and " + has,
        by_stage ? format("use {} or fewer, or another partition", *most)
                 : format("write {}; `longhaul doctor --site {}` compares the whole file", *most, site.config.name));
  }
}

}  // namespace longhaul
