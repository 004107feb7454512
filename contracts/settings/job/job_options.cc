#include "contracts/settings/job/job_options.h"

namespace longhaul {

const FieldTable<JobOptions>& job_options_fields() {
  using J = JobOptions;
  static const auto table =
      FieldTable<J>()
          .field("class", &J::job_class, {.help = "kind of job, one of the site's; empty takes the site's default"})
          .field("partition", &J::partition, {.help = "empty: as the site says"})
          .field("qos", &J::qos, {.help = "empty: as the site says"})
          .field("account", &J::account, {.help = "that pays; empty: as the site says"})
          .field("reservation", &J::reservation, {.help = "nodes kept free for it"})
          .field("constraint", &J::constraint, {.help = "features of the nodes"})
          .field("licenses", &J::licenses, {.help = "licenses that the job holds"})
          .field("gpus_per_node", &J::gpus_per_node, {.help = "-1: as the site says", .min = -1, .max = 64})
          .field("ranks_per_node", &J::ranks_per_node, {.help = "0: ranks / nodes", .min = 0, .max = 4096})
          .field("memory", &J::memory, {.help = "per node, as sbatch takes it; empty: as the site says"})
          .field("exclusive", &J::exclusive,
                 {.help = "whole nodes; empty: as the site says", .choices = {"", "yes", "no"}})
          .field("exclude", &J::exclude, {.help = "nodes not to use"})
          .field("switches", &J::switches, {.help = "leaf switches at most, and how long to wait for that"})
          .field("segment", &J::segment, {.unit = "nodes", .help = "of one block; 0: any", .min = 0, .max = 1e6})
          .field("stop_before", &J::stop_before,
                 {.help = "this long before the job's end its ranks save and stop; 0s: as the site says", .min = 0})
          .field("requeue", &J::requeue,
                 {.help = "whether Slurm may start the same job again after a node failure; empty: as the site says",
                  .choices = {"", "yes", "no"}})
          .field("no_kill", &J::no_kill, {.help = "the allocation outlives the loss of a node"})
          .field("throttle", &J::throttle,
                 {.help = "variants of a matrix that run at the same time; 0: no limit", .min = 0, .max = 1e6})
          .field("resumable", &J::resumable,
                 {.help = "goes on from its saved state in another job; empty: as its kind does",
                  .choices = {"", "yes", "no"}})
          .field("modules", &J::modules, {.help = "loaded after the site's, in this order"})
          .field("environment", &J::environment, {.help = "variables of the job; they win over the site's"})
          .field("container", &J::container, {.help = "image or environment file; empty: none"})
          .field("mounts", &J::mounts, {.help = "SRC:DST folders that the container sees"})
          .field("options", &J::options, {.help = "further sbatch options, one --name=value each"});
  return table;
}

}  // namespace longhaul
