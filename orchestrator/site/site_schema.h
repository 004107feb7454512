// Room orchestrator/site
// Site files: what one can say, how it is inherited, and where each value comes from.
// site_schema.h has every key; site_config.h loads a file with its parents; verified_values.h what was checked.
// submission_times.h holds the times of a submission; runs_mount.h judges the file system of the runs.
// It knows neither workflows nor the scheduler, which both read it.
//
// What a site file can say, as structs with their field tables. docs/reference/site.md is printed from these.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "contracts/schema/field_table.h"
#include "contracts/settings/job/fault_commands.h"
#include "orchestrator/notify/notify_config.h"

namespace longhaul {

// A kind of job at a site: [classes.prod]. What it leaves out is as the site says for all jobs.
struct JobClass {
  std::string name;
  std::string description;
  std::vector<std::string> kinds;  // stage kinds that belong here unless a stage says another class; "driver": ticks
  std::string partition, qos, account, account_suffix, constraint, reservation;
  Seconds max_wall{0}, default_wall{0};  // 0: no limit; as max_wall
  int min_nodes = 1;
  int max_nodes = 0;            // 0: no limit
  double max_node_minutes = 0;  // nodes x wall time of one job; 0: no limit
  int max_submitted = 0;        // jobs of one user that may wait or run; 0: no limit known
  int max_running = 0;
  int cores = 0;           // per node; 0: as [node]
  int gpus_per_node = -1;  // that a job asks for; -1: as [node]; 0: a class without GPUs
  int cpus_per_gpu = -1;   // -1: as [ask]
  std::string memory;      // per node; "": as [ask]
  std::string exclusive;   // yes | no; "": as [ask]
  std::vector<std::string> options;
};
const FieldTable<JobClass>& job_class_fields();

struct NodeShape {
  int cores = 0;  // 0: not known
  int threads_per_core = 1;
  ByteCount memory{0};
  int gpus = 0;
  std::string gpu;  // model, for people
  ByteCount gpu_memory{0};
  double gpu_tflops = 0;  // peak in bf16, dense; 0: as the time model knows it by its name
  std::string arch;
  int cpus() const { return cores * threads_per_core; }  // as the scheduler counts them
};
const FieldTable<NodeShape>& node_shape_fields();

// How a job asks for its part of a node.
struct AskRules {
  std::string gpu_request = "gpus_per_node";
  std::string gpu_type;         // stands before the number: --gres=gpu:a100:4
  int cpus_per_gpu = 0;         // least number of CPUs for each GPU; 0: an even share of the node's
  std::string memory;           // "": nothing is asked for
  ByteCount memory_per_gpu{0};  // without `memory`: this much for each GPU
  bool exclusive = false;
  bool requeue = false;
  std::vector<std::string> forbid;   // options that the site's submit filter refuses
  std::vector<std::string> options;  // further sbatch options for every job
};
const FieldTable<AskRules>& ask_rules_fields();

struct LauncherRules {
  std::string kind = "srun";
  std::string mpi = "pmix";
  std::string cpu_bind;
  std::vector<std::string> options;
};
const FieldTable<LauncherRules>& launcher_rules_fields();

struct ContainerRules {
  std::string runtime = "none";
  std::vector<std::string> mounts, options;
};
const FieldTable<ContainerRules>& container_rules_fields();

// What users of this site can do: yes | no, "" where nobody has said.
struct SiteCapabilities {
  std::string submit_from_compute, no_kill, exclude, shared_nodes, internet, scrontab, requeue;
  std::string cuda;  // programs on its GPUs
};
const FieldTable<SiteCapabilities>& site_capabilities_fields();

// What the file systems hold, and for how long.
struct SitePaths {
  std::string node_local;
  Seconds scratch_purge{0};
  ByteCount scratch_quota{0};
  std::int64_t scratch_inodes = 0;
  int stripe_count = 0;      // of Lustre, for folders of checkpoints; 0: as the file system does; -1: all its targets
  ByteCount stripe_size{0};  // 0: as the file system does
};
const FieldTable<SitePaths>& site_paths_fields();

// For the tuner's model of time. Per node and direction unless said otherwise; 0: not known.
struct Bandwidths {
  int nics = 0;
  double nic_gbit = 0;                                           // Gbit/s of one
  double gpu_link_gbyte = 0;                                     // GB/s of one GPU to the others of its node
  double gpu_memory_gbyte = 0;                                   // GB/s
  double storage_write_gbyte = 0, storage_read_gbyte = 0;        // GB/s of the whole file system
  double node_local_write_gbyte = 0, node_local_read_gbyte = 0;  // GB/s of a node's own disk
  Seconds silence{0};  // the longest that the fabric may be silent and come back
  std::string ports;   // "60001-63000": what the nodes of a job reach each other by; "": Slurm's SrunPortRange
};
const FieldTable<Bandwidths>& bandwidths_fields();

// What is worth knowing of a site, and decides nothing.
struct SiteFacts {
  std::string scratch, project, tmp;
  std::string fabric;
  double allreduce_gbyte = 0;         // GB/s of bus bandwidth of an all-reduce over two nodes that is healthy
  std::vector<std::string> gpu_cpus;  // beside each GPU of a node, in CUDA's order: "0-15"
  std::string gpus_bound;             // yes | no: the launcher binds ranks to those; "": nobody has tried
};
const FieldTable<SiteFacts>& site_facts_fields();

// A key that has moved there: "network.fabric" is "facts.fabric" now.
struct MovedKey {
  std::string was, is;
};
const std::vector<MovedKey>& moved_site_keys();

struct SiteConfig {
  std::string name = "local";
  std::string description;
  std::string scheduler = "local";
  int cpu_slots = 0;           // 0: the cores of this machine
  std::string data;            // ${site.data}
  std::string runs;            // folder of runs; "": runs/ below the current folder. --runs-dir wins
  std::string artifacts;       // artifact root; "": <runs>/.artifacts
  std::string group;           // that may change the runs; "": nobody
  std::string readers;         // that may read them; "": as the umask says
  bool is_private = false;     // nobody else may read them
  std::string metrics_folder;  // of node_exporter's textfile collector; "": none
  std::string constants;       // file of measured constants; "": constants/<name>.toml beside the site's file

  std::string slurm_backend = "auto";
  std::string cluster;                          // of several: the one that is asked, with -M; "": the commands' own
  std::string identity = "comment";             // what carries a submission's key beside its name
  std::map<std::string, std::string> programs;  // "sbatch" -> its path; others are found in PATH
  std::string driver = "auto";                  // of ticks
  Seconds poll_interval{30};
  Seconds submit_deadline{60};
  Seconds submit_patience{86'400};
  Seconds driver_interval{300};  // scrontab: whole minutes
  Seconds driver_stay{0};
  int max_submitted = 0;
  std::string account, account_suffix;
  bool account_required = false;
  std::vector<std::string> partitions;  // all that there are; empty: not known
  std::string default_class;
  Seconds default_wall{86'400};  // of jobs whose class has no limit
  Seconds stop_before{300};
  Seconds slurmd_timeout{0};  // 0: not known
  double budget_gpu_hours = 0;
  std::vector<std::string> modules;
  std::map<std::string, std::string> environment;

  NodeShape node;
  AskRules ask;
  LauncherRules launcher;
  ContainerRules container;
  SiteCapabilities can;
  SitePaths paths;
  Bandwidths network;
  SiteFacts facts;
  NotifyConfig notify;            // where messages about runs go
  FaultCommands faults;           // that tests may ask for
  std::vector<JobClass> classes;  // [classes.NAME], in the order written; not part of site_fields()

  bool is_slurm() const { return scheduler == "slurm"; }
  const JobClass* find_class(const std::string& class_name) const;
};
const FieldTable<SiteConfig>& site_fields();

}  // namespace longhaul
