#include "worker/lead/placement/launch_plan.h"

#include <algorithm>

#include "base/files/files.h"
#include "base/process/process.h"
#include "base/text/text.h"
#include "contracts/records/host_list.h"
#include "worker/launch/input_lists.h"
#include "worker/lead/monitor/rank_watch.h"
#include "worker/lead/placement/rank_layout.h"
#include "worker/lead/placement/staging.h"
#include "worker/protocol/node/node_report.h"

namespace longhaul {
namespace {

// A job that was queued again launches where its former life did: addresses of those programs and numbers of those
// steps must not be taken for ours. Their logs stay.
Status make_step_folders(const Attempt& attempt, const std::string& launch_dir) {
  if (attempt.steps.empty()) return {};
  LH_CHECK(remove_tree(shared_folder(launch_dir)));
  LH_CHECK(make_directories(shared_folder(launch_dir)));
  for (const JobStep& step : attempt.steps) {
    const std::string folder = step_folder(launch_dir, step.name);
    LH_CHECK(make_directories(folder));
    LH_CHECK(remove_tree(slurm_step_path(folder)));
  }
  return {};
}

// Of a former life of this job: their processes have ended long ago, and would be taken for ranks of this launch; so
// would their entries.
Status remove_old_pages(const Launch& launch, const std::vector<JobStep>& steps) {
  LH_CHECK(remove_tree(launch.store_dir));
  for (const PageFolder& folder : page_folders(launch, steps))
    for (int rank = 0; rank < folder.ranks; ++rank) LH_CHECK(remove_tree(beat_page_path(folder.path, rank)));
  return {};
}

// Of several programs each has its part of the job's nodes; of one, a launcher places ranks in blocks, as many to each
// node, in the job's order of nodes.
void place_ranks(const LeadOf& lead, Launch& launch) {
  launch.rank_host.clear();
  for (const JobStep& step : lead.attempt.steps)
    for (int rank = 0; rank < step.ranks; ++rank)
      launch.rank_host.push_back(step.first_node + rank / std::max(1, step.ranks_per_node()));
  if (!lead.attempt.steps.empty()) return;
  const int nodes = std::max(1, static_cast<int>(launch.hosts.size()));
  const int of_node = std::max(1, (launch.ranks + nodes - 1) / nodes);
  for (int rank = 0; rank < launch.ranks; ++rank) launch.rank_host.push_back(rank / of_node);
}

constexpr FileRetry no_retry{1, 0};  // the lead has agents to answer: it launches again by itself (prepare_in_time)

bool is_mpirun(const std::vector<std::string>& arguments) {
  return !arguments.empty() && file_name(arguments.front()) == "mpirun";
}

std::string own_node(const LeadOf& lead) {
  return lead.job.node.empty() ? host_name() : lead.job.node;
}

// In the order in which ranks are placed: the job's, in which mpirun has its own node first, if that is one of them.
std::vector<std::string> hosts_of_ranks(const LeadOf& lead, const HostPool& pool) {
  std::vector<std::string> hosts = pool.working();
  const std::string own = own_node(lead);
  if (is_mpirun(lead.attempt.launcher))
    std::stable_partition(hosts.begin(), hosts.end(), [&](const std::string& host) { return host == own; });
  return hosts;
}

// mpirun takes the nodes of the job unless it is given which; a spare is none of its.
void name_hosts(std::vector<std::string>& arguments, const std::vector<std::string>& hosts, const RankLayout& layout) {
  const auto count = std::find(arguments.begin(), arguments.end(), "-np");
  if (count != arguments.end() && count + 1 != arguments.end()) *(count + 1) = std::to_string(layout.ranks);
  std::vector<std::string> named;
  const int of_node = (layout.ranks + layout.nodes - 1) / layout.nodes;
  for (const std::string& host : hosts) named.push_back(format("{}:{}", host, of_node));
  arguments.insert(arguments.begin() + 1, {"--host", join(named, ",")});
}

// srun's own numbers, where fewer ranks than planned are started on fewer nodes.
void fit_numbers(std::vector<std::string>& arguments, const RankLayout& layout) {
  for (std::string& argument : arguments) {
    if (starts_with(argument, "--nodes=")) argument = format("--nodes={}", layout.nodes);
    if (starts_with(argument, "--ntasks=")) argument = format("--ntasks={}", layout.ranks);
  }
}

// Which nodes of the job, where not all of them work; beside what may be left of an earlier launch, whose step Slurm
// may hold to be running until it notices that a node is dead.
std::vector<std::string> launcher_arguments_of(const LeadOf& lead, const HostPool& hosts, const RankLayout& layout,
                                               int number) {
  std::vector<std::string> arguments = lead.attempt.launcher;
  if (is_mpirun(arguments)) name_hosts(arguments, hosts_of_ranks(lead, hosts), layout);
  if (arguments.empty() || file_name(arguments.front()) != "srun") return arguments;
  if (layout.ranks != lead.task.resources.ranks) fit_numbers(arguments, layout);
  std::vector<std::string> added;
  if (!hosts.spares().empty() || !hosts.left().empty()) added.push_back("--nodelist=" + join(hosts.working(), ","));
  if (number > 1) added.insert(added.end(), {"--overlap", "--mem=0"});
  arguments.insert(arguments.begin() + 1, added.begin(), added.end());
  return arguments;
}

}  // namespace

bool uses_job_nodes(const LeadOf& lead) {
  if (lead.job.nodes.empty()) return false;
  return lead.attempt.steps.empty() ? !lead.attempt.launcher.empty() : !lead.attempt.steps.front().launcher.empty();
}

Result<HostPool> host_pool_of(const LeadOf& lead) {
  std::vector<std::string> hosts = {host_name()};
  if (uses_job_nodes(lead)) {
    LH_TRY(hosts, expand_host_list(lead.job.nodes));
  }
  int needed = 1;
  for (const JobStep& step : lead.attempt.steps) needed = std::max(needed, step.first_node + step.nodes);
  if (needed > static_cast<int>(hosts.size()))
    return make_error(ErrorCode::invalid_input,
                      format("the steps need {} nodes, and the job has {}", needed, hosts.size()),
                      "submit the script with sbatch, without other --nodes");
  const int all = static_cast<int>(hosts.size());
  const int working = lead.attempt.steps.empty() ? std::clamp(lead.task.resources.nodes, 1, all) : all;
  return HostPool(hosts, working);
}

Result<LaunchSpec> prepare_launch(const LeadOf& lead, int number, const HostPool& hosts, bool pages_in_memory,
                                  std::int64_t saved_step) {
  const Attempt& attempt = lead.attempt;
  LaunchSpec spec;
  spec.attempt = attempt;
  const RankLayout layout = rank_layout(lead, hosts);
  spec.attempt.launcher = launcher_arguments_of(lead, hosts, layout, number);
  spec.task = lead.task;
  spec.worker_program = lead.worker_program;
  spec.mpirun = lead.job.mpirun;
  Launch& launch = spec.launch;
  launch.attempt_key = attempt.key;
  launch.attempt = attempt.attempt;
  launch.launch = number;
  launch.epoch = number;
  launch.ranks = layout.ranks;
  launch.hosts = hosts_of_ranks(lead, hosts);
  place_ranks(lead, launch);
  launch.dims = layout.dims;
  launch.launch_dir = join_path(attempt.attempt_dir, format("launches/{}", number));
  if (pages_in_memory) {
    LH_TRY(launch.beat_dir, new_node_beat_folder());
  }
  launch.store_dir = join_path(beat_folder(launch), "store");
  launch.events_path = attempt.events_path();
  launch.output_dir = staging_folder(attempt, lead.job.restarts, number);
  launch.state_dir = attempt.state_dir();
  launch.at_least_step = std::max<std::int64_t>(0, saved_step);
  launch.owner = {attempt.attempt, lead.job.restarts, lead.epoch, own_node(lead), number};
  LH_CHECK(clear_staging(attempt, lead.job.restarts));  // first: on a full disk it makes room for what follows
  LH_CHECK(make_directories(attempt.stage_dir));
  LH_CHECK(take_state(launch.state_dir, launch.owner, no_retry));
  LH_CHECK(make_directories(launch.output_dir));
  launch.milestones_dir = attempt.milestones_dir();
  launch.fault_plan = attempt.fault_plan;
  LH_CHECK(make_directories(launch.launch_dir));
  if (attempt.faults.allowed) {  // faults of this launch may still come, beside those that every launch begins with
    std::string plan = "follow\n";
    if (!attempt.fault_plan.empty()) {
      LH_TRY(const std::string of_all, read_file(attempt.fault_plan));
      plan += of_all;
    }
    launch.fault_plan = join_path(launch.launch_dir, "faults.plan");
    LH_CHECK(write_file_renamed(launch.fault_plan, plan));
  }
  LH_CHECK(make_step_folders(attempt, launch.launch_dir));
  if (lead.task.kind == "command") LH_CHECK(write_input_lists(lead.task, launch.launch_dir));
  LH_CHECK(remove_old_pages(launch, attempt.steps));
  spec.launch_path = join_path(launch.launch_dir, "launch.toml");
  LH_CHECK(write_launch(spec.launch_path, launch));
  return spec;
}

}  // namespace longhaul
