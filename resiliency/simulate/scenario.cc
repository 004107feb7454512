#include "resiliency/simulate/scenario.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/error/diagnostics.h"
#include "base/text/text.h"
#include "base/toml.h"
#include "resiliency/taxonomy/fault_table.h"

namespace longhaul {
namespace {

const FieldTable<SimHeader>& header_fields() {
  static const auto table =
      FieldTable<SimHeader>()
          .field("name", &SimHeader::name, {.help = "for tables and the report", .required = true})
          .field("description", &SimHeader::description, {.help = "one line"})
          .field("sources", &SimHeader::sources, {.help = "where its numbers were read"})
          .field("seed", &SimHeader::seed,
                 {.help = "the same seed gives the same result; --seed replaces it", .min = 0})
          .field("trials", &SimHeader::trials,
                 {.help = "independent runs of which means and bounds are taken; --trials replaces it",
                  .min = 2,
                  .max = 10'000});
  return table;
}

const FieldTable<SimCluster>& cluster_fields() {
  static const auto table =
      FieldTable<SimCluster>()
          .field("gpus", &SimCluster::gpus, {.help = "that train", .min = 1, .max = 10'000'000, .required = true})
          .field("gpus_per_host", &SimCluster::gpus_per_host, {.help = "has to divide gpus", .min = 1, .max = 1024})
          .field("spares", &SimCluster::spares,
                 {.unit = "hosts", .help = "in the allocation, without ranks", .min = 0, .max = 100'000})
          .field("repair", &SimCluster::repair,
                 {.help = "of a host that was left, until it is a spare again", .min = 0})
          .field("lemon_share", &SimCluster::lemon_share,
                 {.help = "share of hosts that fail more often", .min = 0, .max = 1})
          .field("lemon_factor", &SimCluster::lemon_factor,
                 {.help = "so many times as many faults as another host", .min = 1, .max = 10'000});
  return table;
}

const FieldTable<SimTraining>& training_fields() {
  static const auto table =
      FieldTable<SimTraining>()
          .field("length", &SimTraining::length, {.help = "wall time that is simulated", .min = 60, .required = true})
          .field("step", &SimTraining::step, {.help = "of the optimizer, with all replicas", .min = 0.001})
          .field("replicas", &SimTraining::replicas, {.help = "data-parallel", .min = 1, .max = 10'000'000})
          .field("replicas_min", &SimTraining::replicas_min,
                 {.help = "fewer are not worth going on with", .min = 1, .max = 10'000'000})
          .field("replicas_by_host", &SimTraining::replicas_by_host,
                 {.help = "at most so many lose a rank with one host", .min = 1, .max = 1024})
          .field("operator", &SimTraining::operator_s,
                 {.help = "until somebody has seen to a training that the policy stopped", .min = 0})
          .field("restarts", &SimTraining::restarts,
                 {.help = "resiliency.restarts: launches after faults, without a new checkpoint in between", .min = 0})
          .field("host_suspicion", &SimTraining::host_suspicion,
                 {.help = "resiliency.host_suspicion: a host with two faults is left when another is there"})
          .field(
              "patience", &SimTraining::patience,
              {.help = "with a file system or a network that stands still: as long as resiliency.startup", .min = 0});
  return table;
}

const FieldTable<SimSaves>& saves_fields() {
  static const auto table =
      FieldTable<SimSaves>()
          .field("enabled", &SimSaves::enabled, {.help = "whether such saves are made"})
          .field("stall", &SimSaves::stall, {.help = "the training stands still for so long", .min = 0})
          .field("write", &SimSaves::write,
                 {.help = "from the beginning of a save until it is whole; a fault before that loses it", .min = 0})
          .field("every_steps", &SimSaves::every_steps,
                 {.unit = "steps", .help = "0: chosen while the training runs, from what is measured", .min = 0});
  return table;
}

const FieldTable<SimAllSaves>& all_saves_fields() {
  static const auto table =
      FieldTable<SimAllSaves>()
          .group("memory", &SimAllSaves::memory, saves_fields(), "copies on the nodes; enabled = false by default")
          .group("global", &SimAllSaves::global, saves_fields(), "checkpoints on the shared file system");
  return table;
}

const FieldTable<SimTier>& tier_fields() {
  static const auto table =
      FieldTable<SimTier>()
          .field("offered", &SimTier::offered, {.help = "whether launcher and site allow this tier"})
          .field("refusal", &SimTier::refusal, {.help = "why not"})
          .field("stop", &SimTier::stop, {.help = "from the verdict until the last rank is gone", .min = 0})
          .field("queue", &SimTier::queue, {.help = "wait of a new job for its nodes", .min = 0})
          .field("start", &SimTier::start, {.help = "until ranks run and communicators stand", .min = 0})
          .field("load", &SimTier::load, {.help = "of the copy or checkpoint", .min = 0})
          .field("copy", &SimTier::copy,
                 {.help = "where this tier restarts from, while copies in memory are kept",
                  .choices = {"memory", "global"}});
  return table;
}

const FieldTable<SimRestarts>& restarts_fields() {
  static const auto table =
      FieldTable<SimRestarts>()
          .group("skip", &SimRestarts::skip, tier_fields(), "leave a step out")
          .group("in_process", &SimRestarts::in_process, tier_fields(), "processes stay")
          .group("in_job", &SimRestarts::in_job, tier_fields(), "new processes, same hosts")
          .group("swap", &SimRestarts::swap, tier_fields(), "a spare in place of a host")
          .group("shrink", &SimRestarts::shrink, tier_fields(), "fewer replicas until a host is back")
          .group("new_job", &SimRestarts::new_job, tier_fields(), "another job");
  return table;
}

std::vector<std::string> names_of_classes() {
  std::vector<std::string> names;
  for (const FaultInfo& info : fault_table) names.emplace_back(info.name);
  return names;
}

const FieldTable<SimFault>& sim_fault_fields() {
  static const auto table =
      FieldTable<SimFault>()
          .field("count", &SimFault::count,
                 {.help = "seen in observed.gpus over observed.length", .min = 0, .required = true})
          .field("class", &SimFault::fault_class,
                 {.help = "of the table of faults (faults.md), which says scope, group and whom it accuses",
                  .choices = names_of_classes()})
          .field("scope", &SimFault::scope,
                 {.help = "what it belongs to; file_system: the shared one, for which every rank waits",
                  .choices = {"rank", "gpu", "host", "link", "job", "user", "file_system"}})
          .field("group", &SimFault::group,
                 {.help = "which budget pays for it",
                  .choices = {"application", "infrastructure", "preemption", "memory"}})
          .field("all_ranks_alive", &SimFault::all_ranks_alive, {.help = "no process has ended"})
          .field("loses_host", &SimFault::loses_host, {.help = "no rank can run there any more"})
          .field("skippable", &SimFault::skippable, {.help = "leaving the step out cures it"})
          .field("culprit", &SimFault::culprit, {.help = "false: nobody can see which host it is"})
          .field("hosts", &SimFault::hosts,
                 {.unit = "hosts",
                  .help = "side by side that it hits: a rack, those of a switch",
                  .min = 1,
                  .max = 100'000})
          .field("detect", &SimFault::detect, {.help = "from the fault to its verdict", .min = 0})
          .field("lasts", &SimFault::lasts,
                 {.help = "it passes by itself after that, and the training stands still until then; longer than "
                          "training.patience it is given up, and nobody is blamed; 0s: it does not pass",
                  .min = 0});
  return table;
}

const FieldTable<SimObserved>& observed_fields() {
  static const auto table =
      FieldTable<SimObserved>()
          .field("gpus", &SimObserved::gpus, {.help = "0: as many as the cluster has", .min = 0})
          .field("length", &SimObserved::length, {.help = "over which faults were counted", .min = 1});
  return table;
}

const FieldTable<SimScaling>& scaling_fields() {
  static const auto table =
      FieldTable<SimScaling>()
          .field("measured_hosts", &SimScaling::measured_hosts,
                 {.unit = "hosts",
                  .help = "on which stop and start were measured: they grow with log2(hosts) from there; 0: they are "
                          "those of the cluster",
                  .min = 0})
          .field("communicators", &SimScaling::communicators,
                 {.help = "time to make communicators on communicators_gpus, added to start in proportion", .min = 0})
          .field("communicators_gpus", &SimScaling::communicators_gpus, {.help = "see communicators", .min = 1});
  return table;
}

const FieldTable<SimExpectation>& expectation_fields() {
  static const auto table =
      FieldTable<SimExpectation>()
          .field("figure", &SimExpectation::figure,
                 {.help = "effective: steps done times the time of a step, over the length; or a class of time",
                  .choices = {"effective", "training", "checkpoint_stall", "detect", "stop", "start", "load",
                              "recompute", "queue", "idle"}})
          .field("percent", &SimExpectation::percent,
                 {.unit = "%", .help = "the published value", .min = 0, .max = 100, .required = true})
          .field("within", &SimExpectation::within, {.unit = "points", .help = "how near", .min = 0, .max = 100})
          .field("at_least", &SimExpectation::at_least, {.help = "published as a lower bound"})
          .field("source", &SimExpectation::source, {.help = "where it was read", .required = true});
  return table;
}

const FieldTable<SimVary>& vary_fields() {
  static const auto table =
      FieldTable<SimVary>()
          .field("costs", &SimVary::costs, {.help = "factors on all latencies", .min = 0.01, .max = 100})
          .field("intervals", &SimVary::intervals,
                 {.help = "fixed intervals of the most frequent saves, times Daly's optimum", .min = 0.01, .max = 100})
          .field("spares", &SimVary::spares,
                 {.unit = "hosts", .help = "empty: none, one more, twice as many", .min = 0, .max = 100'000});
  return table;
}

// Latencies with their paths, each once.
void each_latency(Scenario& scenario, const std::function<void(const std::string&, Seconds&)>& see) {
  const auto saves = [&](const std::string& name, SimSaves& kind) {
    if (!kind.enabled) return;
    see("saves." + name + ".stall", kind.stall);
    see("saves." + name + ".write", kind.write);
  };
  saves("memory", scenario.saves.memory);
  saves("global", scenario.saves.global);
  for (int level = 0; level < static_cast<int>(RestartTier::stop); ++level) {
    const auto tier = static_cast<RestartTier>(level);
    SimTier& costs = scenario.restart.of(tier);
    if (!costs.offered) continue;
    const std::string at = format("restart.{}.", to_string(tier));
    see(at + "stop", costs.stop);
    see(at + "queue", costs.queue);
    see(at + "start", costs.start);
    see(at + "load", costs.load);
  }
  for (SimFault& fault : scenario.faults)
    if (fault.lasts.value == 0) see("fault." + fault.name + ".detect", fault.detect);  // else it has no verdict
  see("scaling.communicators", scenario.scaling.communicators);
}

bool covered_by(const std::string& path, const std::string& said) {
  return path == said || starts_with(path, said + ".");
}

// Adds the problems of a scenario whose keys are all right.
class ScenarioCheck {
 public:
  ScenarioCheck(const Value& document, Scenario& scenario, Diagnostics& diagnostics)
      : document_(document), scenario_(scenario), diagnostics_(diagnostics) {}

  void run() {
    const SimCluster& cluster = scenario_.cluster;
    for (const char* section : {"scenario", "cluster", "training"})
      if (!document_.find(section))
        diagnostics_.add(document_.pos, format("[{}] is missing", section),
                         "docs/reference/simulate.md lists its keys");
    if (cluster.gpus > 0 && cluster.gpus % cluster.gpus_per_host != 0)
      diagnostics_.add(
          place("cluster", "gpus_per_host"),
          format("cluster.gpus_per_host = {} does not divide cluster.gpus = {}", cluster.gpus_per_host, cluster.gpus));
    if (scenario_.training.replicas_min > scenario_.training.replicas)
      diagnostics_.add(place("training", "replicas_min"),
                       format("training.replicas_min = {} is more than training.replicas = {}",
                              scenario_.training.replicas_min, scenario_.training.replicas));
    if (scenario_.training.length.value > 0 && scenario_.training.step.value > scenario_.training.length.value)
      diagnostics_.add(place("training", "step"), "training.step is longer than training.length");
    if (!scenario_.saves.global.enabled)
      diagnostics_.add(place("saves", "global"), "saves.global cannot be left out",
                       "a training that no checkpoint survives cannot be simulated");
    if (scenario_.scaling.measured_hosts == 1)
      diagnostics_.add(place("scaling", "measured_hosts"), "scaling.measured_hosts = 1 says nothing about a tree",
                       "measure on two hosts or more, or leave it at 0");
    double all = 0;
    for (const SimFault& fault : scenario_.faults) all += fault.count, check_fault(fault);
    if (!(all > 0)) diagnostics_.add(place("fault", ""), "no faults", "write [fault.NAME] with its count");
    check_measured();
  }

 private:
  void check_fault(const SimFault& fault) {
    const SourcePos at = place("fault", fault.name.c_str());
    if (fault.lasts.value > 0 && fault.loses_host)
      diagnostics_.add(at, format("fault.{} loses its host and passes by itself", fault.name),
                       "say loses_host = true, or how long it lasts");
    if (fault.lasts.value == 0 && fault.scope == "file_system")
      diagnostics_.add(at, format("fault.{}: a file system that does not come back ends every training", fault.name),
                       "say how long it lasts");
    if (scenario_.cluster.gpus > 0 && fault.hosts > scenario_.hosts())
      diagnostics_.add(
          at, format("fault.{}.hosts = {} are more than the cluster's {}", fault.name, fault.hosts, scenario_.hosts()));
  }

  SourcePos place(const char* section, const char* key) const {
    const Value* found = document_.find(section);
    if (!found) return document_.pos;
    const Value* inner = found->is_table() ? found->find(key) : nullptr;
    return inner ? inner->pos : found->pos;
  }

  void check_measured() {
    const Value* measured = document_.find("measured");
    if (!measured || !measured->is_table()) return;
    std::vector<std::string> known;
    each_latency(scenario_, [&](const std::string& path, Seconds&) { known.push_back(path); });
    for (const ValueMember& member : measured->as_table()) {
      bool names_one = false;
      for (const std::string& path : known) names_one = names_one || covered_by(path, member.key);
      if (names_one) continue;
      const std::string nearest = nearest_word(member.key, known);
      diagnostics_.add(member.value.pos, "measured names no latency of this scenario: \"" + member.key + "\"",
                       nearest.empty() ? "for example \"restart.in_job.start\"" : "did you mean \"" + nearest + "\"?");
    }
  }

  const Value& document_;
  Scenario& scenario_;
  Diagnostics& diagnostics_;
};

}  // namespace

FaultGroup SimFault::group_of_budget() const {
  if (!fault_class.empty()) return longhaul::group_of(fault_class_of(fault_class));
  if (group == "application") return FaultGroup::application;
  if (group == "preemption") return FaultGroup::preemption;
  return group == "memory" ? FaultGroup::memory : FaultGroup::infrastructure;
}

FaultScope SimFault::scope_of() const {
  if (is_of_storage() || !fault_class.empty()) return info_of(stands_for()).scope;
  for (int one = 0; one <= static_cast<int>(FaultScope::user); ++one)
    if (scope == to_string(static_cast<FaultScope>(one))) return static_cast<FaultScope>(one);
  return FaultScope::rank;
}

bool SimFault::is_of_storage() const {
  return scope == "file_system";
}

FaultClass SimFault::stands_for() const {
  if (!fault_class.empty()) return fault_class_of(fault_class);
  if (is_of_storage()) return FaultClass::file_system;
  const FaultGroup pays = group_of_budget();
  if (pays == FaultGroup::preemption) return FaultClass::preempted;
  if (pays == FaultGroup::memory) return FaultClass::out_of_memory;
  const bool of_program = pays == FaultGroup::application;
  if (loses_host && !of_program) return FaultClass::host_unreachable;
  switch (scope_of()) {
    case FaultScope::rank: return of_program ? FaultClass::crash : FaultClass::frozen;
    case FaultScope::gpu: return of_program ? FaultClass::gpu_program : FaultClass::gpu_memory_contained;
    case FaultScope::host: return of_program ? FaultClass::hang : FaultClass::ranks_not_started;
    case FaultScope::link: return of_program ? FaultClass::hang : FaultClass::nccl_error;
    case FaultScope::job: return of_program ? FaultClass::mpi_error : FaultClass::connection_lost;
    case FaultScope::user: break;
  }
  return of_program ? FaultClass::exception : FaultClass::connection_lost;
}

const SimTier& SimRestarts::of(RestartTier tier) const {
  switch (tier) {
    case RestartTier::skip: return skip;
    case RestartTier::in_process: return in_process;
    case RestartTier::in_job: return in_job;
    case RestartTier::swap: return swap;
    case RestartTier::shrink: return shrink;
    default: return new_job;
  }
}
SimTier& SimRestarts::of(RestartTier tier) {
  return const_cast<SimTier&>(static_cast<const SimRestarts*>(this)->of(tier));
}

double Scenario::faults_per_s(const SimFault& fault) const {
  const double gpus = static_cast<double>(observed.gpus > 0 ? observed.gpus : cluster.gpus);
  return fault.count / (gpus * observed.length.value) * static_cast<double>(cluster.gpus);
}

double Scenario::mtbf_s() const {
  double rate = 0;
  for (const SimFault& fault : faults) rate += faults_per_s(fault);
  return 1 / rate;
}

Scenario Scenario::at_scale() const {
  Scenario scaled = *this;
  const double growth =
      scaling.measured_hosts > 1 ? std::max(1.0, std::log2(hosts()) / std::log2(scaling.measured_hosts)) : 1;
  const double communicators =
      scaling.communicators.value * static_cast<double>(cluster.gpus) / static_cast<double>(scaling.communicators_gpus);
  for (int level = 0; level < static_cast<int>(RestartTier::stop); ++level) {
    SimTier& tier = scaled.restart.of(static_cast<RestartTier>(level));
    tier.stop.value *= growth;
    tier.start.value *= growth;
    if (static_cast<RestartTier>(level) != RestartTier::skip) tier.start.value += communicators;
  }
  scaled.scaling = SimScaling();
  return scaled;
}

Scenario Scenario::with_costs(double factor) const {
  Scenario changed = *this;
  each_latency(changed, [&](const std::string&, Seconds& latency) { latency.value *= factor; });
  return changed;
}

std::vector<std::string> Scenario::assumed() const {
  std::vector<std::string> paths;
  Scenario copy = *this;
  each_latency(copy, [&](const std::string& path, const Seconds& latency) {
    if (latency.value == 0) return;
    for (const auto& [said, by] : measured)
      if (covered_by(path, said)) return;
    paths.push_back(path);
  });
  return paths;
}

const FieldTable<Scenario>& scenario_fields() {
  static const auto table =
      FieldTable<Scenario>()
          .group("scenario", &Scenario::header, header_fields(), "what it is")
          .group("cluster", &Scenario::cluster, cluster_fields(), "the machine")
          .group("training", &Scenario::training, training_fields(), "what runs on it")
          .group("saves", &Scenario::saves, all_saves_fields(), "copies and checkpoints")
          .group("restart", &Scenario::restart, restarts_fields(), "what each tier takes")
          .named("fault", &Scenario::faults, &SimFault::name, sim_fault_fields(), "what goes wrong, and how often")
          .group("observed", &Scenario::observed, observed_fields(), "where faults were counted")
          .group("scaling", &Scenario::scaling, scaling_fields(), "from the machine where latencies were measured")
          .group("vary", &Scenario::vary, vary_fields(), "what else is simulated")
          .named("expect", &Scenario::expectations, &SimExpectation::name, expectation_fields(),
                 "published figures that have to come out")
          .field("measured", &Scenario::measured,
                 {.help = "\"restart.in_job.start\" = \"COMMAND\": latencies, or tables of them, that were measured, "
                          "and by what; all others are assumed"});
  return table;
}

Result<Scenario> parse_scenario(const std::string& text, const std::string& file_name) {
  LH_TRY(const Value document, parse_toml(text, file_name));
  Diagnostics diagnostics;
  Scenario scenario = scenario_fields().parse(document, "", diagnostics);
  if (diagnostics.empty()) ScenarioCheck(document, scenario, diagnostics).run();
  LH_CHECK(diagnostics.to_status("nothing was simulated"));
  return scenario;
}

}  // namespace longhaul
