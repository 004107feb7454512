// What `longhaul simulate` reads: a cluster, a training, its faults, and what each step of a recovery takes.
//
// Every latency of a scenario is either measured, and `[measured]` says by what, or assumed, and every output says so.
//
// The scaling rule, for scenarios whose latencies were measured on a small machine (scaling.measured_hosts > 0):
//   detect       stays: every node watches its own ranks and reports to the lead over a connection of its own
//   stop, start  grow with the depth of a tree over the hosts: x log2(hosts) / log2(measured_hosts)
//   start        and then takes the time to make communicators, proportional to the GPUs: scaling.communicators at
//                scaling.communicators_gpus
//   load, saves  stay: they are given for the cluster, as bytes per GPU over a bandwidth
// Without measured_hosts all of them are taken as they stand.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/value/value.h"
#include "contracts/schema/field_table.h"
#include "resiliency/taxonomy/restart_tier.h"

namespace longhaul {

struct SimHeader {
  std::string name, description;
  std::vector<std::string> sources;  // of its numbers
  std::int64_t seed = 1;
  int trials = 20;
};

struct SimCluster {
  std::int64_t gpus = 0;  // that train
  int gpus_per_host = 8;
  int spares = 0;           // hosts in the allocation that hold no ranks
  Seconds repair{86'400};   // of a host that was left, until it is a spare again
  double lemon_share = 0;   // of the hosts
  double lemon_factor = 1;  // so many times as many faults as another host
};

struct SimTraining {
  Seconds length{0};           // wall time from the first step on
  Seconds step{1};             // with all replicas
  int replicas = 1;            // data-parallel
  int replicas_min = 1;        // fewer are not worth it
  int replicas_by_host = 1;    // at most so many lose a rank with one host
  Seconds operator_s{3600};    // until somebody has seen to a training that stopped
  int restarts = 3;            // resiliency.restarts: after faults of one cause, without a new checkpoint in between
  bool host_suspicion = true;  // resiliency.host_suspicion
  Seconds patience{600};       // with what stands still and is no host's fault: as long as the stage's `startup`
};

// Saves of one kind.
struct SimSaves {
  bool enabled = true;
  Seconds stall{10};             // the training stands still
  Seconds write{0};              // until it is whole, from its beginning; a fault before that loses it
  std::int64_t every_steps = 0;  // 0: chosen while it runs (IntervalChooser)
};

struct SimAllSaves {
  SimSaves memory{.enabled = false};  // on the nodes, a host's with its partner: survive everything but a new job
  SimSaves global;                    // on the shared file system
};

struct SimTier {
  bool offered = true;
  std::string refusal;  // why it is not
  Seconds stop{0};      // from the verdict until the last rank is gone
  Seconds queue{0};     // new_job only
  Seconds start{0};     // until communicators stand
  Seconds load{0};
  std::string copy = "memory";  // where it restarts from, if such copies are kept: "memory" | "global"
};

struct SimRestarts {
  SimTier skip, in_process, in_job, swap, shrink, new_job;
  const SimTier& of(RestartTier tier) const;
  SimTier& of(RestartTier tier);
};

struct SimFault {
  std::string name;
  double count = 0;  // seen in observed.gpus over observed.length
  // A class of the table of faults (taxonomy/fault_table.h), which has scope, group and whom it accuses; "": none, and
  // the two below say what it is.
  std::string fault_class;
  std::string scope = "gpu";  // FaultScope, or "file_system": the shared one
  std::string group = "infrastructure";
  bool all_ranks_alive = false;
  bool loses_host = false;  // no rank can run there any more
  bool skippable = false;
  bool culprit = true;  // whose fault it is can be seen; false: no host is named
  int hosts = 1;        // so many side by side are hit: a rack, those of a switch
  Seconds detect{1};
  Seconds lasts{0};  // it passes by itself after that, and all that it stopped goes on; 0: it does not

  // Of one without a class, the one of the table that is most like it by scope and group.
  FaultClass stands_for() const;
  FaultScope scope_of() const;
  FaultGroup group_of_budget() const;
  bool is_of_storage() const;  // that all hosts share
};

struct SimObserved {
  std::int64_t gpus = 0;  // 0: the cluster's
  Seconds length{86'400};
};

struct SimScaling {
  int measured_hosts = 0;  // 0: latencies are those of the cluster
  Seconds communicators{0};
  std::int64_t communicators_gpus = 16'384;
};

// A published figure that this scenario has to give again.
struct SimExpectation {
  std::string name;
  std::string figure = "effective";  // or a class of time
  double percent = 0;
  double within = 2;      // points; of at_least nothing
  bool at_least = false;  // "more than 90 %"
  std::string source;
};

struct SimVary {
  std::vector<double> costs = {0.5, 0.7, 1, 1.4, 2};
  std::vector<double> intervals = {0.5, 0.7, 1, 1.4, 2};  // times Daly's optimum, fixed
  std::vector<std::int64_t> spares;                       // empty: none, one more, twice as many
};

struct Scenario {
  SimHeader header;
  SimCluster cluster;
  SimTraining training;
  SimAllSaves saves;
  SimRestarts restart;
  std::vector<SimFault> faults;
  SimObserved observed;
  SimScaling scaling;
  SimVary vary;
  std::vector<SimExpectation> expectations;
  std::map<std::string, std::string> measured;  // path of a latency, or of a table of them -> what measured it

  int hosts() const { return static_cast<int>(cluster.gpus / cluster.gpus_per_host); }
  double faults_per_s(const SimFault& fault) const;
  double mtbf_s() const;  // of all faults together

  // The scaling rule applied: what a trial uses. Its own scaling is empty.
  Scenario at_scale() const;
  // All latencies times `factor`.
  Scenario with_costs(double factor) const;
  // "restart.in_job.stop" of all that no entry of `measured` covers and that are not 0.
  std::vector<std::string> assumed() const;
};
const FieldTable<Scenario>& scenario_fields();

// All problems of the text together, each with its place.
Result<Scenario> parse_scenario(const std::string& text, const std::string& file_name);

}  // namespace longhaul
