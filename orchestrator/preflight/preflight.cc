#include "orchestrator/preflight/preflight.h"

#include <sys/utsname.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/process/process.h"
#include "base/text/text.h"
#include "orchestrator/job/request/job_options_check.h"
#include "orchestrator/job/request/sbatch_text.h"
#include "orchestrator/preflight/promised_gpus.h"

namespace longhaul {
namespace {

constexpr std::int64_t modules_deadline_ms = 60'000;
constexpr int no_module_command = 99;
constexpr std::size_t module_message_max = 300;

const Directive* find_directive(const JobPlan& job, const std::string& option) {
  const auto found = std::find_if(job.directives.begin(), job.directives.end(),
                                  [&](const Directive& directive) { return directive.option == option; });
  return found == job.directives.end() ? nullptr : &*found;
}

class ClusterCheck {
 public:
  ClusterCheck(const ClusterAnswers& cluster, Diagnostics& diagnostics)
      : partitions_(cluster.partitions),
        reservations_(cluster.reservations),
        slurm_(cluster.slurm),
        diagnostics_(diagnostics) {
    for (const QueueAnswer& answer : cluster.answers) answers_.emplace(answer.stage, &answer);
  }

  std::vector<std::string> not_looked_at() const { return {not_looked_at_.begin(), not_looked_at_.end()}; }

  void check(const PlannedStage& stage, const JobPlan& job) {
    stage_ = &stage;
    answer_ = answer_of(stage);
    found_ = false;
    check_partition(job);
    const Directive* reservation = find_directive(job, "reservation");
    if (reservation && !reservation->value.empty()) check_reservation(*reservation);
    if (answer_ && answer_->for_good && !found_)
      problem("job", "Slurm would not take the job: " + one_line(answer_->refused),
              "`longhaul plan --scripts` prints what is asked for; sbatch --test-only tries it");
  }

 private:
  void check_partition(const JobPlan& job) {
    if (partitions_.empty()) return;
    std::vector<const SlurmPartition*> asked;
    if (job.partition.empty()) {
      const SlurmPartition* const routed = answer_ ? find(answer_->partition) : nullptr;
      const bool by_filter = find_directive(job, "qos") || find_directive(job, "constraint");
      const bool taken = answer_ && answer_->refused.empty();
      if (!routed && (by_filter || taken)) return;  // what Slurm has answered is all that is known
      for (const SlurmPartition& partition : partitions_)
        if (routed ? &partition == routed : partition.is_default) asked.push_back(&partition);
    } else {
      for (const std::string& name : split(job.partition, ',')) {
        const SlurmPartition* found = find(name);
        if (!found && shows_less(slurm_, "partitions"))
          return hidden("partitions", "partition '" + one_line(name) + "'");
        if (!found) return no_partition(name, job);
        asked.push_back(found);
      }
    }
    if (asked.empty() && shows_less(slurm_, "partitions")) return hidden("partitions", "the default partition");
    if (asked.empty())
      return problem("job.partition", "the cluster has no default partition, and no other is asked for",
                     "name one: " + names());
    // Slurm takes the first of them that fits.
    const auto fits = [&](const SlurmPartition* p) { return nodes_fit(*p, job) && time_fits(*p, job); };
    if (std::any_of(asked.begin(), asked.end(), fits)) return;
    const SlurmPartition& first = *asked.front();
    if (!nodes_fit(first, job))
      problem("nodes",
              format("{} nodes{} are more than the {} of partition {}", job.nodes + job.spares,
                     job.spares > 0 ? format(", {} of them spares,", job.spares) : "", nodes_of(first), first.name),
              "take fewer, or another partition");
    else
      problem("time_limit",
              format("a wall time of {} is longer than the {} of partition {}", sbatch_time(job.wall_s),
                     sbatch_time(static_cast<double>(first.max_time_s)), first.name),
              "shorten it, or correct the class's max_time in the site file");
  }
  void no_partition(const std::string& name, const JobPlan& job) {
    std::vector<std::string> known;
    for (const SlurmPartition& partition : partitions_) known.push_back(partition.name);
    const std::string nearest = nearest_word(name, known);
    const Directive* directive = find_directive(job, "partition");
    problem("job.partition",
            "the cluster has no partition '" + one_line(name) + "'" +
                (directive ? " (from " + one_line(directive->origin) + ")" : ""),
            nearest.empty() ? "there are: " + names() : "did you mean '" + nearest + "'?");
  }
  void check_reservation(const Directive& directive) {
    for (const std::string& name : split(directive.value, ',')) {
      if (std::any_of(reservations_.begin(), reservations_.end(),
                      [&](const SlurmReservation& one) { return one.name == name; }))
        continue;
      if (shows_less(slurm_, "reservations"))
        hidden("reservations", "reservation '" + one_line(name) + "'");
      else
        problem("job.reservation", "the cluster has no reservation '" + one_line(name) + "'",
                "see `scontrol show reservation`");
    }
  }
  void hidden(const std::string& kind, const std::string& what) {
    not_looked_at_.insert(what + " is not among those that Slurm shows to you (PrivateData=" + kind +
                          "): whether it is there Slurm says when the job is submitted");
  }

  static int nodes_of(const SlurmPartition& partition) {
    return partition.nodes_max > 0 ? std::min(partition.nodes_max, partition.nodes_total) : partition.nodes_total;
  }
  static bool nodes_fit(const SlurmPartition& partition, const JobPlan& job) {
    return partition.nodes_total == 0 || job.nodes + job.spares <= nodes_of(partition);
  }
  static bool time_fits(const SlurmPartition& partition, const JobPlan& job) {
    return partition.max_time_s == 0 || job.wall_s <= static_cast<double>(partition.max_time_s);
  }
  // Of the stage, or of all its variants.
  const QueueAnswer* answer_of(const PlannedStage& stage) const {
    for (const std::string& label : {stage.id(), stage.stage})
      if (const auto found = answers_.find(label); found != answers_.end()) return found->second;
    return nullptr;
  }
  const SlurmPartition* find(const std::string& name) const {
    for (const SlurmPartition& partition : partitions_)
      if (partition.name == name) return &partition;
    return nullptr;
  }
  std::string names() const {
    std::vector<std::string> all;
    for (const SlurmPartition& partition : partitions_) all.push_back(partition.name);
    return join(all, ", ");
  }
  void problem(const std::string& key, const std::string& what, const std::string& hint) {
    found_ = true;
    if (reported_.insert(what).second) diagnostics_.add(stage_->place_of(key), what, hint);
  }

  const std::vector<SlurmPartition>& partitions_;
  const std::vector<SlurmReservation>& reservations_;
  const SlurmConfiguration& slurm_;
  Diagnostics& diagnostics_;
  std::map<std::string, const QueueAnswer*> answers_;
  const PlannedStage* stage_ = nullptr;
  const QueueAnswer* answer_ = nullptr;  // to that stage; nullptr: not asked
  bool found_ = false;                   // a problem of that stage
  std::set<std::string> reported_, not_looked_at_;
};

bool has_other_processors(const Site& site) {
  utsname host{};
  return !site.config.node.arch.empty() && ::uname(&host) == 0 && site.config.node.arch != host.machine;
}

// The first of them that does not load, and what `module` says of it; "" if they do, or nobody can say.
struct MissingModule {
  std::string name, message;
};
MissingModule first_missing_module(const std::vector<std::string>& modules) {
  SpawnSpec spec;
  spec.argv = {"bash", "-c",
               "command -v module >/dev/null || . /etc/profile >/dev/null 2>&1\n"
               "command -v module >/dev/null || exit " +
                   std::to_string(no_module_command) + "\n" + join(module_loader(), "\n") +
                   "\n"
                   "for name do\n"
                   "  printf '\\036' >&2\n"  // ends what was said of those before
                   "  load_module \"$name\" >/dev/null || { printf '%s' \"$name\"; exit 1; }\n"
                   "done\n",
               "longhaul"};
  spec.argv.insert(spec.argv.end(), modules.begin(), modules.end());
  const auto done = run_captured(std::move(spec), modules_deadline_ms);
  const bool one_failed = done.ok() && done->status.code == 1 && done->status.signal == 0;
  if (!one_failed || std::find(modules.begin(), modules.end(), done->out) == modules.end()) return {};
  std::vector<std::string> lines;
  const std::size_t begin = done->err.rfind('\036');
  for (const std::string& line : split(done->err.substr(begin == std::string::npos ? 0 : begin + 1), '\n'))
    if (!trim(line).empty()) lines.push_back(trim(line));
  return {done->out, repair_utf8(join(lines, "; ").substr(0, module_message_max))};
}

}  // namespace

std::vector<std::string> check_against_cluster(const RunPlan& plan, const std::vector<JobPlan>& jobs,
                                               const ClusterAnswers& cluster, Diagnostics& diagnostics) {
  ClusterCheck check(cluster, diagnostics);
  for (std::size_t i = 0; i < jobs.size(); ++i) check.check(plan.stages[i], jobs[i]);
  return check.not_looked_at();
}

Result<std::vector<std::string>> check_with_slurm(SlurmPort& port, const RunPlan& plan,
                                                  const std::vector<JobPlan>& jobs, const std::string& runs_dir,
                                                  Diagnostics& diagnostics) {
  ClusterAnswers cluster;
  LH_TRY(cluster.partitions, port.partitions());
  const bool reserved = std::any_of(jobs.begin(), jobs.end(),
                                    [](const JobPlan& job) { return find_directive(job, "reservation") != nullptr; });
  if (reserved) {
    LH_TRY(cluster.reservations, port.reservations());
  }
  cluster.answers = ask_queue(port, plan, jobs, runs_dir).answers;
  if (auto slurm = port.configuration(); slurm.ok()) cluster.slurm = *std::move(slurm);
  return check_against_cluster(plan, jobs, cluster, diagnostics);
}

void check_gpus_with_slurm(SlurmPort& port, const Site& site, const RunPlan& plan, const std::vector<JobPlan>& jobs,
                           Diagnostics& diagnostics) {
  if (std::none_of(jobs.begin(), jobs.end(), [](const JobPlan& job) { return job.gpus_per_node > 0; })) return;
  const auto partitions = port.partitions();
  const auto nodes = partitions.ok() ? port.nodes() : Result<std::vector<SlurmNode>>(partitions.error());
  if (nodes.ok()) check_promised_gpus(site, plan, jobs, *partitions, *nodes, diagnostics);
}

void take_walls_from(const std::vector<SlurmPartition>& partitions, Site& site) {
  // The shortest of those that are named, or the default; 0: not known, or none has a limit.
  const auto limit_of = [&](const std::string& names) {
    std::int64_t limit = 0;
    for (const SlurmPartition& one : partitions) {
      const auto asked = split(names, ',');
      const bool meant =
          names.empty() ? one.is_default : std::find(asked.begin(), asked.end(), one.name) != asked.end();
      if (meant && one.max_time_s > 0 && (limit == 0 || one.max_time_s < limit)) limit = one.max_time_s;
    }
    return limit;
  };
  const auto derive = [&](const std::string& path, std::int64_t limit_s, const std::string& names) {
    const std::string source = names.empty() ? "MaxTime of the default partition" : "MaxTime of partition " + names;
    site.set_derived(path, Value(format("{}s", limit_s)), "slurmctld", source);
  };
  for (JobClass& one : site.config.classes) {
    const bool by_filter = one.partition.empty() && (!one.qos.empty() || !one.constraint.empty());
    const std::int64_t limit_s = one.max_wall.value > 0 || by_filter ? 0 : limit_of(one.partition);
    if (limit_s == 0) continue;
    one.max_wall.value = static_cast<double>(limit_s);
    derive("classes." + one.name + ".max_wall", limit_s, one.partition);
  }
  const std::int64_t limit_s = site.config.classes.empty() ? limit_of("") : 0;
  if (limit_s == 0 || static_cast<double>(limit_s) >= site.config.default_wall.value) return;
  site.config.default_wall.value = static_cast<double>(limit_s);
  derive("default_wall", limit_s, "");
}

void check_modules(const Site& site, const RunPlan& plan, Diagnostics& diagnostics) {
  if (has_other_processors(site)) return;
  std::map<std::vector<std::string>, MissingModule> missing;  // of each list of modules
  std::set<std::string> named;
  for (const PlannedStage& stage : plan.stages) {
    std::vector<std::string> modules = site.config.modules;
    modules.insert(modules.end(), stage.common.job.modules.begin(), stage.common.job.modules.end());
    if (modules.empty()) continue;
    auto known = missing.find(modules);
    if (known == missing.end()) known = missing.emplace(modules, first_missing_module(modules)).first;
    const auto& [name, message] = known->second;
    if (name.empty() || !named.insert(name).second) continue;
    const bool of_site =
        std::find(site.config.modules.begin(), site.config.modules.end(), name) != site.config.modules.end();
    const auto origin = site.origins.find("modules");
    const SourcePos place =
        of_site && origin != site.origins.end() ? origin->second.where : stage.place_of("job.modules");
    diagnostics.add(place,
                    "`module load " + name + "` fails on " + host_name() + (message.empty() ? "" : ": " + message),
                    "try: module avail " + shell_quoted(name.substr(0, name.find('/'))));
  }
}

}  // namespace longhaul
