#include "base/text/text.h"
#include "orchestrator/job/request/job_directives.h"
#include "orchestrator/job/request/job_options_check.h"
#include "orchestrator/job/request/sbatch_text.h"

namespace longhaul {
namespace {

void ask_for_counts(const JobSources& from, const JobShape& shape, JobDirectives& lines) {
  const SiteConfig& config = from.config();
  const JobOptions& job = from.job();
  const auto common = [&](const std::string& key, int value) {
    Chosen chosen = from.of_user(std::to_string(value), key);
    if (!from.stage.asked.is_null() && !from.stage.asked.find(key)) chosen.origin = "default: " + from.name(key);
    if (!shape.steps.empty() && (key != "nodes" || shape.steps.front().own_nodes))
      chosen.origin = "workflow: " + from.name("step");
    return chosen;
  };
  if (shape.spares > 0) {
    lines.add("nodes", from.of_user(std::to_string(shape.nodes + shape.spares), "resiliency.spares"));
    lines.add("ntasks", {std::to_string(shape.ranks_per_node * (shape.nodes + shape.spares)),
                         "room for ranks on spares, too", from.stage.where, false});
  } else {
    lines.add("nodes", common("nodes", shape.nodes));
    lines.add("ntasks", common("ranks", shape.ranks));
  }
  lines.add("ntasks-per-node", job.ranks_per_node > 0
                                   ? from.of_user(std::to_string(shape.ranks_per_node), "job.ranks_per_node")
                                   : Chosen{std::to_string(shape.ranks_per_node),
                                            shape.steps.empty() ? "ranks / nodes" : "room for the steps on each node",
                                            from.stage.where, false});
  Chosen cpus{std::to_string(shape.cpus_per_rank),
              shape.steps.empty() ? "an even share of the node's CPUs" : "room for the steps on each node",
              from.stage.where, false};
  if (shape.cpus_per_rank == from.stage.common.threads) cpus = common("threads", shape.cpus_per_rank);
  if (shape.cpus_per_rank != from.stage.common.threads && shape.gpus_per_node > 0) {
    if (from.job_class.cpus_per_gpu > 0) cpus.origin = from.site.origin_of(from.class_path("cpus_per_gpu"));
    if (from.job_class.cpus_per_gpu < 0 && config.ask.cpus_per_gpu > 0)
      cpus.origin = from.site.origin_of("ask.cpus_per_gpu");
  }
  lines.add("cpus-per-task", cpus);
}

void ask_for_gpus(const JobSources& from, const JobShape& shape, JobDirectives& lines) {
  const SiteConfig& config = from.config();
  const JobOptions& job = from.job();
  const std::string& request = config.ask.gpu_request;
  if (shape.gpus_per_node == 0 || request == "none") return;
  Chosen chosen{"", "", from.stage.where, false};
  if (job.gpus_per_node >= 0)
    chosen = from.of_user("", "job.gpus_per_node");
  else
    chosen.origin = from.job_class.gpus_per_node >= 0 ? from.site.origin_of(from.class_path("gpus_per_node"))
                                                      : from.site.origin_of("node.gpus");
  chosen.origin += "; " + from.site.origin_of("ask.gpu_request");
  const std::string type = config.ask.gpu_type.empty() ? "" : config.ask.gpu_type + ":";
  int count = shape.gpus_per_node;
  std::string option = replace_all(request, "_", "-");
  if (request == "gpus") count *= shape.nodes + shape.spares;
  if (request == "gpus_per_task") {
    if (count % shape.ranks_per_node != 0) {
      from.problem("ranks", format("{} GPUs of a node cannot be given evenly to {} ranks", count, shape.ranks_per_node),
                   "use as many ranks as GPUs");
      return;
    }
    count /= shape.ranks_per_node;
  }
  chosen.value = (request == "gres" ? "gpu:" : "") + type + std::to_string(count);
  lines.add(option, chosen);
}

void ask_for_memory(const JobSources& from, const JobShape& shape, JobDirectives& lines) {
  const SiteConfig& config = from.config();
  const JobOptions& job = from.job();
  Chosen memory =
      from.choose(job.memory, "job.memory", from.job_class.memory, "memory", config.ask.memory, "ask.memory");
  if (memory.value.empty() && config.ask.memory_per_gpu.value > 0 && shape.gpus_per_node > 0)
    memory =
        from.of_site(format("{}M", config.ask.memory_per_gpu.value * shape.gpus_per_node >> 20), "ask.memory_per_gpu");
  if (!memory.value.empty() && !is_slurm_memory(memory.value))
    from.problem_at(memory.where, "'" + one_line(memory.value) + "' is not an amount of memory",
                    "a number with K, M, G or T, for example \"200G\"; \"0\" is all of a node's");
  else
    lines.add_if("mem", memory);
}

// Which nodes, and whether others may have a part of them.
void ask_for_places(const JobSources& from, const JobShape& shape, JobDirectives& lines) {
  const SiteConfig& config = from.config();
  const JobOptions& job = from.job();
  if (const Chosen whole = from.exclusive(); whole.value == "yes")
    lines.add("exclusive", {"", whole.origin, whole.where, whole.by_user});
  if (!job.exclude.empty() && config.can.exclude == "no")
    from.problem("job.exclude", from.site_text() + " refuses jobs that name nodes", "remove job.exclude");
  lines.add_if("exclude", from.of_user(job.exclude, "job.exclude"));
  if (!job.switches.empty() && !is_slurm_switches(job.switches))
    from.problem("job.switches", "'" + one_line(job.switches) + "' is not a number of switches",
                 "for example \"1\" or \"1@01:00:00\"");
  else
    lines.add_if("switches", from.of_user(job.switches, "job.switches"));
  if (job.segment > 0) {
    if ((shape.nodes + shape.spares) % job.segment != 0)
      from.problem("job.segment",
                   format("{} nodes are not whole segments of {}", shape.nodes + shape.spares, job.segment),
                   "use a number that divides nodes");
    lines.add("segment", from.of_user(std::to_string(job.segment), "job.segment"));
  }
}

}  // namespace

void ask_for_resources(const JobSources& from, const JobShape& shape, JobDirectives& lines) {
  ask_for_counts(from, shape, lines);
  ask_for_gpus(from, shape, lines);
  ask_for_memory(from, shape, lines);
  ask_for_places(from, shape, lines);
}

}  // namespace longhaul
