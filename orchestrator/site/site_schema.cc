#include "orchestrator/site/site_schema.h"

namespace longhaul {
namespace {

const std::vector<std::string> yes_or_no = {"", "yes", "no"};

}  // namespace

const FieldTable<JobClass>& job_class_fields() {
  using C = JobClass;
  static const auto table =
      FieldTable<C>()
          .field("description", &C::description, {.help = "one line for people"})
          .field("kinds", &C::kinds,
                 {.help = "stage kinds that go here unless a stage names another class; \"cpu\": stages on processors; "
                          "\"driver\": the small jobs and scrontab lines that drive runs; a class without GPUs that "
                          "names none takes stages on processors, one that names others (\"transfer\") no stages"})
          .field("partition", &C::partition, {.help = "empty: the scheduler's default"})
          .field("qos", &C::qos, {.help = "quality of service"})
          .field("account", &C::account, {.help = "that pays; empty: as the site says"})
          .field("account_suffix", &C::account_suffix, {.help = "written behind the account; empty: as the site says"})
          .field("constraint", &C::constraint, {.help = "features of the nodes"})
          .field("reservation", &C::reservation, {.help = "nodes kept free for it"})
          .field("max_wall", &C::max_wall, {.help = "longest job; 0s: no limit", .min = 0})
          .field("default_wall", &C::default_wall, {.help = "of a stage without time_limit; 0s: as max_wall", .min = 0})
          .field("min_nodes", &C::min_nodes, {.help = "fewest nodes of a job", .min = 1})
          .field("max_nodes", &C::max_nodes, {.help = "most nodes of a job; 0: no limit", .min = 0})
          .field("max_node_minutes", &C::max_node_minutes,
                 {.unit = "node-minutes", .help = "nodes x wall time of a job at most; 0: no limit", .min = 0})
          .field("max_submitted", &C::max_submitted,
                 {.help = "jobs of one user that wait or run; 0: no limit known", .min = 0})
          .field("max_running", &C::max_running,
                 {.help = "jobs of one user that run, which bounds arrays; 0: no limit known", .min = 0})
          .field("cores", &C::cores, {.help = "per node; 0: as in [node]", .min = 0})
          .field("gpus_per_node", &C::gpus_per_node,
                 {.help = "that its nodes have; -1: as in [node]; 0: none", .min = -1, .max = 64})
          .field("cpus_per_gpu", &C::cpus_per_gpu, {.help = "-1: as in [ask]", .min = -1})
          .field("memory", &C::memory, {.help = "asked for per node; empty: as in [ask]"})
          .field("exclusive", &C::exclusive, {.help = "whole nodes; empty: as in [ask]", .choices = yes_or_no})
          .field("options", &C::options, {.help = "further sbatch options, one --name=value each"});
  return table;
}

const FieldTable<NodeShape>& node_shape_fields() {
  using N = NodeShape;
  static const auto table =
      FieldTable<N>()
          .field("cores", &N::cores, {.help = "of a node; 0: not known", .min = 0})
          .field("threads_per_core", &N::threads_per_core,
                 {.help = "hardware threads of a core that the scheduler counts as CPUs", .min = 1, .max = 8})
          .field("memory", &N::memory, {.help = "of the host", .min = 0})
          .field("gpus", &N::gpus, {.help = "of a node", .min = 0, .max = 64})
          .field("gpu", &N::gpu, {.help = "model, for people"})
          .field("gpu_memory", &N::gpu_memory, {.help = "of one GPU", .min = 0})
          .field(
              "gpu_tflops", &N::gpu_tflops,
              {.unit = "TFLOP/s",
               .help = "peak of one GPU in bf16 without sparsity; needed where the time model does not know its name",
               .min = 0})
          .field("arch", &N::arch, {.help = "of the processors", .choices = {"", "x86_64", "aarch64"}});
  return table;
}

const FieldTable<AskRules>& ask_rules_fields() {
  using A = AskRules;
  static const auto table =
      FieldTable<A>()
          .field("gpu_request", &A::gpu_request,
                 {.help = "the option that asks for GPUs; none: nodes come with theirs",
                  .choices = {"none", "gres", "gpus_per_node", "gpus", "gpus_per_task"}})
          .field("gpu_type", &A::gpu_type, {.help = "type in that option: gpu:TYPE:4"})
          .field("cpus_per_gpu", &A::cpus_per_gpu,
                 {.help = "least CPUs for each GPU; 0: an even share of the node's", .min = 0})
          .field("memory", &A::memory, {.help = "per node, as sbatch takes it; empty: not asked for"})
          .field("memory_per_gpu", &A::memory_per_gpu,
                 {.help = "where no memory is said: this much for each GPU of the job; 0B: not asked for", .min = 0})
          .field("exclusive", &A::exclusive, {.help = "jobs ask for whole nodes"})
          .field("requeue", &A::requeue, {.help = "Slurm starts a job again after a node failure"})
          .field("forbid", &A::forbid, {.help = "sbatch options that the site refuses, without dashes"})
          .field("options", &A::options, {.help = "further sbatch options of every job, one --name=value each"});
  return table;
}

const FieldTable<LauncherRules>& launcher_rules_fields() {
  using L = LauncherRules;
  static const auto table =
      FieldTable<L>()
          .field("kind", &L::kind,
                 {.help = "what starts the ranks; mpirun: that of Open MPI", .choices = {"srun", "mpirun"}})
          .field("mpi", &L::mpi,
                 {.help = "srun --mpi=, of ranks that call MPI: that of the MPI which the engine is linked with; "
                          "`srun --mpi=list` says which there are, and jobs with another one are refused"})
          .field("cpu_bind", &L::cpu_bind,
                 {.help = "srun --cpu-bind=; empty: as srun likes, and ranks on GPUs put themselves beside those"})
          .field("options", &L::options, {.help = "further options of srun or mpirun, one an entry"});
  return table;
}

const FieldTable<ContainerRules>& container_rules_fields() {
  using C = ContainerRules;
  static const auto table =
      FieldTable<C>()
          .field("runtime", &C::runtime,
                 {.help = "what starts containers; cscs-edf: srun --environment=FILE",
                  .choices = {"none", "pyxis", "apptainer", "singularity", "podman-hpc", "shifter", "cscs-edf"}})
          .field("mounts", &C::mounts, {.help = "SRC:DST folders that every container sees"})
          .field("options", &C::options, {.help = "further arguments for the runtime"});
  return table;
}

const FieldTable<SiteCapabilities>& site_capabilities_fields() {
  using C = SiteCapabilities;
  static const auto table =
      FieldTable<C>()
          .field("submit_from_compute", &C::submit_from_compute, {.help = "sbatch inside a job", .choices = yes_or_no})
          .field("no_kill", &C::no_kill, {.help = "allocations that outlive a node", .choices = yes_or_no})
          .field("exclude", &C::exclude, {.help = "naming nodes not to use", .choices = yes_or_no})
          .field("shared_nodes", &C::shared_nodes, {.help = "jobs smaller than a node", .choices = yes_or_no})
          .field("internet", &C::internet,
                 {.help = "from compute nodes; relay: through the login node", .choices = {"", "yes", "no", "relay"}})
          .field("scrontab", &C::scrontab, {.help = "jobs by the clock", .choices = yes_or_no})
          .field("requeue", &C::requeue, {.help = "jobs that Slurm starts again", .choices = yes_or_no})
          .field("cuda", &C::cuda,
                 {.help = "CUDA programs on its GPUs; no: stages with device = \"auto\" compute on processors",
                  .choices = yes_or_no});
  return table;
}

const FieldTable<SitePaths>& site_paths_fields() {
  using P = SitePaths;
  static const auto table =
      FieldTable<P>()
          .field("scratch_purge", &P::scratch_purge,
                 {.help = "where runs lie, files not used for so long are removed; 0s: never. `plan`, `validate` and "
                          "`status` say what that means for a run, and warn of trainings that take longer",
                  .min = 0})
          .field("scratch_quota", &P::scratch_quota,
                 {.help = "what files may take where runs lie, which trainings' checkpoints have to fit into; 0B: none",
                  .min = 0})
          .field("scratch_inodes", &P::scratch_inodes,
                 {.help = "files and folders that there may be, in the same way; 0: no limit", .min = 0})
          .field(
              "stripe_count", &P::stripe_count,
              {.help = "of Lustre: over how many targets each file of a folder of checkpoints lies (`lfs setstripe`); "
                       "-1: over all; 0: as the file system does it. A run that cannot have it is refused",
               .min = -1,
               .max = 2000})
          .field("stripe_size", &P::stripe_size,
                 {.help =
                      "of Lustre, for the same folders: bytes on one target before the next, a multiple of 64 KiB; 0B: "
                      "as the file system does it",
                  .min = 0})
          .field("node_local", &P::node_local, {.help = "disk of a node, empty at the job's start"});
  return table;
}

const FieldTable<Bandwidths>& bandwidths_fields() {
  using B = Bandwidths;
  static const auto table =
      FieldTable<B>()
          .field("nics", &B::nics, {.help = "network ports of a node", .min = 0})
          .field("nic_gbit", &B::nic_gbit, {.unit = "Gbit/s", .help = "of one port, each direction", .min = 0})
          .field("gpu_link_gbyte", &B::gpu_link_gbyte,
                 {.unit = "GB/s", .help = "of one GPU to all others of its node, each direction", .min = 0})
          .field("gpu_memory_gbyte", &B::gpu_memory_gbyte, {.unit = "GB/s", .help = "of one GPU", .min = 0})
          .field("silence", &B::silence,
                 {.help = "the longest that the fabric may be silent and come back, as while the subnet manager of "
                          "InfiniBand sweeps anew: no timeout of a stage may be shorter; 0s: not said",
                  .min = 0})
          .field(
              "ports", &B::ports,
              {.help = "TCP ports that the nodes of a job may listen on for each other, as \"60001-63000\"; any: all "
                       "of them; empty: Slurm's SrunPortRange, all where it has none"})
          .field(
              "storage_write_gbyte", &B::storage_write_gbyte,
              {.unit = "GB/s",
               .help = "of the whole file system: how long the last checkpoint of a job takes at least; 0: not known",
               .min = 0})
          .field("storage_read_gbyte", &B::storage_read_gbyte,
                 {.unit = "GB/s",
                  .help = "of the whole file system: how long a job that goes on reads at least; 0: not known",
                  .min = 0})
          .field("node_local_write_gbyte", &B::node_local_write_gbyte,
                 {.unit = "GB/s",
                  .help = "of a node's own disk: what optimizer.offload = \"node_local\" adds to a step; 0: not known",
                  .min = 0})
          .field("node_local_read_gbyte", &B::node_local_read_gbyte,
                 {.unit = "GB/s", .help = "the same, reading; 0: not known", .min = 0});
  return table;
}

const FieldTable<SiteFacts>& site_facts_fields() {
  using F = SiteFacts;
  static const auto table =
      FieldTable<F>()
          .field("scratch", &F::scratch, {.help = "large and quick, as the site's documentation writes it"})
          .field("project", &F::project, {.help = "kept, shared with the project"})
          .field("tmp", &F::tmp, {.help = "for small files while a job runs"})
          .field("fabric", &F::fabric, {.help = "what connects the nodes"})
          .field("allreduce_gbyte", &F::allreduce_gbyte,
                 {.unit = "GB/s", .help = "bus bandwidth of an all-reduce over two nodes that is healthy", .min = 0})
          .field("gpu_cpus", &F::gpu_cpus,
                 {.help = "CPUs beside each GPU of a node, in CUDA's order, as \"0-15\"; `doctor --job` finds them"})
          .field("gpus_bound", &F::gpus_bound,
                 {.help = "the launcher binds ranks to CPUs beside their GPUs; `doctor --job` tries it",
                  .choices = yes_or_no});
  return table;
}

const std::vector<MovedKey>& moved_site_keys() {
  static const std::vector<MovedKey> keys = {{"paths.scratch", "facts.scratch"},
                                             {"paths.project", "facts.project"},
                                             {"paths.tmp", "facts.tmp"},
                                             {"network.fabric", "facts.fabric"},
                                             {"network.allreduce_gbyte", "facts.allreduce_gbyte"}};
  return keys;
}

const FieldTable<SiteConfig>& site_fields() {
  using S = SiteConfig;
  static const auto table =
      FieldTable<S>()
          .field("name", &S::name, {.help = "of the site; empty: the file's"})
          .field("description", &S::description, {.help = "one line for people"})
          .field("scheduler", &S::scheduler, {.help = "what starts the jobs", .choices = {"local", "slurm"}})
          .field("cpu_slots", &S::cpu_slots,
                 {.unit = "cores", .help = "that jobs may use at the same time; 0 takes the machine's", .min = 0})
          .field("data", &S::data, {.help = "folder of raw data, for ${site.data}"})
          .field("runs", &S::runs, {.help = "folder of runs; empty is ./runs; --runs-dir wins"})
          .field("group", &S::group,
                 {.help = "Unix group whose members may steer and take over runs: whoever is in this group can run "
                          "anything as you; others cannot read them. Empty: nobody else"})
          .field(
              "readers", &S::readers,
              {.help = "Unix group whose members may look at runs, and change nothing; others cannot read them. Empty: "
                       "the umask decides"})
          .field("private", &S::is_private,
                 {.help = "runs are readable for nobody else, whatever the umask; without it, and without group and "
                          "readers, the umask decides, which `longhaul doctor` reports"})
          .field(
              "artifacts", &S::artifacts,
              {.help = "root under which artifacts are found across runs; empty is .artifacts in the folder of runs"})
          .field("metrics_folder", &S::metrics_folder,
                 {.help = "of node_exporter's textfile collector, where controllers keep metrics of runs as "
                          "longhaul-RUN.prom; empty: only metrics.prom in each run's folder"})
          .field(
              "constants", &S::constants,
              {.help = "file of the time model's numbers as `longhaul tune --calibrate` measured them here; empty is "
                       "constants/NAME.toml beside the site's file, where there is one"})
          .field(
              "slurm_backend", &S::slurm_backend,
              {.help =
                   "how Slurm is spoken to; auto: libslurm where its helper fits and the cluster has no filters of its "
                   "command line (CliFilterPlugins), else the commands",
               .choices = {"auto", "libslurm", "cli"}})
          .field("cluster", &S::cluster,
                 {.help =
                      "of a site with several Slurm clusters, the one that jobs go to (-M of Slurm's commands); empty: "
                      "the one that the commands ask by themselves"})
          .field("identity", &S::identity,
                 {.help =
                      "what names a job as ours beside its name, its script's argument and its number: its comment; or "
                      "name, where a submit filter takes the comment for something else (an account) or forbids it",
                  .choices = {"comment", "name"}})
          .field(
              "programs", &S::programs,
              {.help =
                   "paths of commands that are not to be looked for in PATH: Slurm's sbatch, squeue, sacct, scontrol, "
                   "scancel, scrontab; Lustre's lfs"})
          .field("driver", &S::driver,
                 {.help = "who drives a run on: the lead of a job that ends, the foreground, scrontab, a small job",
                  .choices = {"auto", "lead", "here", "scrontab", "job"}})
          .field("driver_interval", &S::driver_interval,
                 {.help = "between two ticks of scrontab, whole minutes", .min = 60, .max = 1800})
          .field("driver_stay", &S::driver_stay,
                 {.help = "how long each of them watches the run; 0s: it goes when there is nothing to do", .min = 0})
          .field("poll_interval", &S::poll_interval, {.help = "between two questions to the scheduler", .min = 0.1})
          .field(
              "submit_deadline", &S::submit_deadline,
              {.help = "of one submission; one without an answer is believed lost after half as long again", .min = 2})
          .field("submit_patience", &S::submit_patience,
                 {.help =
                      "with a submission that is refused with a message that is not known to pass: after this long its "
                      "stage fails",
                  .min = 0})
          .field("max_submitted", &S::max_submitted,
                 {.help = "jobs of one user that wait or run; 0: no limit known", .min = 0})
          .field("account", &S::account, {.help = "that pays"})
          .field("account_suffix", &S::account_suffix, {.help = "written behind the account"})
          .field("account_required", &S::account_required, {.help = "no job without an account"})
          .field("partitions", &S::partitions, {.help = "all that there are; empty: not known"})
          .field("default_class", &S::default_class, {.help = "of stages whose kind no class names"})
          .field("default_wall", &S::default_wall,
                 {.help = "wall time of a job whose class has no max_wall: of trainings, which go on in the next job, "
                          "and of stages without time_limit. Where Slurm says the partition's limit, that is taken",
                  .min = 60})
          .field("stop_before", &S::stop_before,
                 {.help = "this long before a job's end its ranks save and stop", .min = 0})
          .field("slurmd_timeout", &S::slurmd_timeout,
                 {.help = "SlurmdTimeout of slurm.conf: a node that is silent for so long is down; 0s: not known, "
                          "Slurm is asked when a run starts",
                  .min = 0})
          .field("budget_gpu_hours", &S::budget_gpu_hours,
                 {.unit = "GPU-hours", .help = "that a run may cost; 0: not said", .min = 0})
          .field("modules", &S::modules, {.help = "loaded by every job, in this order"})
          .field("environment", &S::environment, {.help = "variables of every job"})
          .group("node", &S::node, node_shape_fields(), "of the nodes that train")
          .group("ask", &S::ask, ask_rules_fields(), "how jobs ask for their part of a node")
          .group("launcher", &S::launcher, launcher_rules_fields(), "what starts the ranks")
          .group("container", &S::container, container_rules_fields(), "how containers start")
          .group("can", &S::can, site_capabilities_fields(), "what users can do here")
          .group("paths", &S::paths, site_paths_fields(), "of the file systems: what they hold, and for how long")
          .group("network", &S::network, bandwidths_fields(), "of the network: bandwidths for the tuner, ports")
          .group("facts", &S::facts, site_facts_fields(),
                 "information only: nothing is decided by it; workflows may name it as ${site.facts.NAME}")
          .group("notify", &S::notify, notify_fields(), "messages about runs, to a webhook")
          .group("faults", &S::faults, fault_commands_fields(),
                 "programs that make faults for tests, where a job has no power to");
  return table;
}

const JobClass* SiteConfig::find_class(const std::string& class_name) const {
  for (const JobClass& one : classes)
    if (one.name == class_name) return &one;
  return nullptr;
}

}  // namespace longhaul
