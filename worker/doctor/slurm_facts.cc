#include "worker/doctor/slurm_facts.h"

#include <algorithm>
#include <set>

#include "base/text/text.h"
#include "contracts/settings/job/port_range.h"

namespace longhaul {
namespace {

using Settings = std::map<std::string, std::string>;

std::string setting(const Settings& settings, const std::string& key) {
  const auto found = settings.find(key);
  if (found == settings.end() || found->second == "(null)" || found->second == "N/A") return {};
  return found->second;
}

bool lists(const std::string& list, const std::string& name) {
  const auto names = split(list, ',');
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& one) { return trim(one) == name || starts_with(trim(one), name + "="); });
}

std::string yes_if(bool is) {
  return is ? "yes" : "no";
}

DoctorFact stepmgr(const Settings& settings) {
  const bool on = lists(setting(settings, "SlurmctldParameters"), "enable_stepmgr");
  return {
      "stepmgr", yes_if(on),
      on ? "steps are made by the first node's slurmstepd: when that node is lost, ranks that live may end well, and "
           "no other launch starts in this job; the next job goes on"
         : "steps are made by slurmctld: the loss of the first node is a fault like any other"};
}

DoctorFact tokens(const Settings& settings, bool has_token) {
  const bool on = setting(settings, "AuthType") == "auth/jwt" || lists(setting(settings, "AuthAltTypes"), "auth/jwt");
  if (!on) return {"jwt", "no", "Slurm takes no tokens (auth/jwt)"};
  return {"jwt", "yes",
          has_token ? "Slurm takes tokens, and SLURM_JWT is set in jobs: it has to live as long as the run submits jobs"
                    : "Slurm takes tokens; jobs have none set (SLURM_JWT), so they submit by munge or not at all"};
}

DoctorFact clusters_known(const Settings& settings, const std::vector<std::string>& clusters) {
  const std::string own = setting(settings, "ClusterName");
  if (clusters.empty())
    return {"multi_cluster", "unknown", "sacctmgr does not say which clusters there are; this one is " + own};
  if (clusters.size() == 1) return {"multi_cluster", "no", "there is one cluster, " + clusters.front()};
  return {"multi_cluster", "yes",
          format("the accounting knows {} clusters ({}); jobs go to {}, the one of this slurm.conf", clusters.size(),
                 join(clusters, ", "), own)};
}

DoctorFact preemption(const Settings& settings) {
  const std::string type = setting(settings, "PreemptType"), mode = setting(settings, "PreemptMode");
  if (type.empty() || type == "preempt/none" || mode == "OFF")
    return {"preemption", "no", "no job is ended for another (PreemptType, PreemptMode)"};
  const bool sends_signal = lists(setting(settings, "PreemptParameters"), "send_user_signal");
  return {"preemption", mode,
          type + ", " + mode +
              (sends_signal
                   ? ": the job gets the signal that it has asked for (USR1) when it is to go, and GraceTime to save"
                   : ": steps get SIGTERM when the job is to go, and GraceTime to save; the batch script hears nothing "
                     "before")};
}

DoctorFact cgroups(const Settings& settings) {
  const std::string devices = setting(settings, "ConstrainDevices");
  if (devices.empty()) return {"constrain_devices", "unknown", "scontrol does not show cgroup.conf"};
  return {"constrain_devices", devices,
          devices == "yes" ? "a step sees only the GPUs that it has: agents see them by --overlap, or not at all"
                           : "every process of a node sees all its GPUs"};
}

DoctorFact filters(const Settings& settings) {
  const std::string submit = setting(settings, "JobSubmitPlugins"), cli = setting(settings, "CliFilterPlugins");
  if (submit.empty() && cli.empty()) return {"submit_filters", "no", "neither JobSubmitPlugins nor CliFilterPlugins"};
  return {"submit_filters", "yes",
          (submit.empty() ? "" : "JobSubmitPlugins=" + submit + " may change every job; ") +
              (cli.empty() ? "no CliFilterPlugins"
                           : "CliFilterPlugins=" + cli + " runs in sbatch alone: take slurm_backend = \"cli\"")};
}

DoctorFact srun_ports(const Settings& settings) {
  const std::string written = setting(settings, "SrunPortRange");
  const auto range = parse_port_range(written == "0-0" ? "" : written);
  if (!range.ok() || range->any())
    return {"srun_ports", "any", "srun listens anywhere (SrunPortRange), and so do leads and agents"};
  return {"srun_ports", range->text(), "leads and agents listen there, unless network.ports says otherwise"};
}

// What runs lose where Slurm shows less to those who may not see all. Jobs are no such thing: a run asks for its own.
DoctorFact private_data(const Settings& settings) {
  const std::string list = setting(settings, "PrivateData");
  std::vector<std::string> lost;
  if (lists(list, "reservations"))
    lost.emplace_back("maintenance is not seen before it begins, and jobs that could be shortened wait for it");
  if (lists(list, "partitions"))
    lost.emplace_back("a partition that is not shown is not checked before jobs are submitted");
  if (lists(list, "nodes")) lost.emplace_back("the node that a job has lost is not known, and none is avoided for it");
  if (lists(list, "usage") || lists(list, "jobs"))
    lost.emplace_back("accounting and queue show your own jobs, which is all that a run asks for");
  if (list.empty() || list == "none") return {"private_data", "no", "Slurm shows everybody all (PrivateData)"};
  return {"private_data", list, lost.empty() ? "nothing of it concerns runs" : join(lost, "; ")};
}

DoctorFact requeues(const Settings& settings) {
  const std::string most = setting(settings, "MaxBatchRequeue");
  return {"requeue", setting(settings, "JobRequeue") == "0" ? "no" : "yes",
          most.empty() ? "how often a job may be requeued is not said"
                       : "a job that was requeued " + most + " times is held (JobHoldMaxRequeue)"};
}

}  // namespace

std::map<std::string, std::string> slurm_settings(const std::string& show_config) {
  Settings settings;
  for (const std::string& line : split(show_config, '\n')) {
    const std::size_t sign = line.find('=');
    if (sign == std::string::npos) continue;
    settings.emplace(trim(line.substr(0, sign)), trim(line.substr(sign + 1)));
  }
  return settings;
}

std::vector<DoctorFact> facts_of_slurm(const Settings& settings, const std::vector<std::string>& clusters,
                                       bool has_token) {
  std::vector<DoctorFact> facts = {
      stepmgr(settings),    tokens(settings, has_token), clusters_known(settings, clusters),
      preemption(settings), cgroups(settings),           filters(settings),
      srun_ports(settings), requeues(settings),          private_data(settings)};
  if (const std::string mpi = setting(settings, "MpiDefault"); !mpi.empty())
    facts.push_back({"mpi_default", mpi, "what srun takes without --mpi"});
  if (const std::string wait = setting(settings, "KillWait"); !wait.empty())
    facts.push_back({"kill_wait", wait, "from Slurm's SIGTERM to its SIGKILL"});
  return facts;
}

// "MPI plugin types are...\n\tnone\n\tpmix\nspecific pmix plugin versions available: pmix_v4" and older layouts
// ("srun: MPI types are...\nsrun: pmi2").
std::vector<std::string> mpi_plugins(const std::string& text) {
  std::vector<std::string> plugins;
  std::set<std::string> seen;
  for (std::string line : split(text, '\n')) {
    line = trim(line);
    if (starts_with(line, "srun:")) line = trim(line.substr(5));
    if (const std::size_t colon = line.find("available:"); colon != std::string::npos)
      line = line.substr(colon + 10);
    else if (line.find(' ') != std::string::npos)
      continue;
    for (const std::string& one : split(line, ','))
      if (const std::string name = trim(one); !name.empty() && seen.insert(name).second) plugins.push_back(name);
  }
  return plugins;
}

}  // namespace longhaul
