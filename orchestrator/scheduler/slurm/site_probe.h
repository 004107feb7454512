// What a live cluster says about itself, beside what a site file says about it: a first file for a cluster that nobody
// has described, and the differences between a file and the cluster it is meant for.
#pragma once

#include <string>
#include <vector>

#include "orchestrator/scheduler/port/slurm_port.h"
#include "orchestrator/site/site_config.h"

namespace longhaul {

// One answer of the cluster to the questions below; taken once, so that both can be asked of it.
struct ClusterFacts {
  SlurmConfiguration configuration;
  std::vector<SlurmPartition> partitions;
  std::vector<SlurmNode> nodes;
  std::vector<std::string> mpi_types;  // that srun takes (mpi_types.h); empty: not known
};
// Nodes that Slurm does not show to everybody (PrivateData) are no error, and not none: `nodes` is empty then.
Result<ClusterFacts> ask_cluster(SlurmPort& port);

// "gpu:a100:4(S:0-1),tmp:1" holds {"a100", 4}. The type is empty where there is none.
struct GresGpus {
  std::string type;
  int count = 0;
};
GresGpus gpus_of_gres(const std::string& gres);

// A site file, with comments about what only people know. One class for each partition.
std::string probed_site_text(const std::string& name, const ClusterFacts& facts);

struct SiteFinding {
  enum class Kind { change, ask };
  Kind kind = Kind::change;
  std::string path;    // "classes.prod.max_wall"
  std::string said;    // by the file
  std::string found;   // on the cluster; of `ask`: the source that the file names, if any
  std::string remedy;  // "write max_wall = \"24h\""
  SourcePos where;     // of the value in the file that says it; no line: no file does
};
// What to change, then what to ask people about: values that are marked unverified.
std::vector<SiteFinding> compare_site(const Site& site, const ClusterFacts& facts);
std::vector<SiteFinding> unverified_values(const Site& site);

}  // namespace longhaul
