// The list of stage kinds: what each takes, makes and can be ordered to do. The workflow reader, the documentation
// generator, the shell completion and the key of a stage all ask here.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "contracts/schema/field_table.h"
#include "contracts/settings/job/job_options.h"
#include "contracts/settings/job/resiliency.h"

namespace longhaul {

struct StageInput {
  std::string name;
  std::vector<std::string> kinds;  // artifact kinds accepted as "@stage"; empty: raw paths only
  bool raw = false;                // a path may be given instead of a stage
  bool required = true;
  std::string help;
};

struct StageKind {
  std::string name;
  int version = 1;  // raised by hand when results change
  std::string help;
  std::vector<StageInput> inputs;
  bool any_inputs = false;  // `command`: whatever names the user likes
  // Inputs beside these that the user names in the setting `blend`, each as this one.
  std::optional<StageInput> blended;
  bool parallel = false;  // may run on more than one rank
  std::vector<FieldInfo> fields;
  // Checks and fills in defaults: the resolved settings table. Keys in `ignored` belong to the workflow.
  std::function<Value(const Value& table, const std::string& where, const std::vector<std::string>& ignored,
                      Diagnostics&)>
      resolve;
};
const std::vector<StageKind>& stage_kinds();
const StageKind* find_stage_kind(const std::string& name);

inline constexpr int ranks_max = 1 << 16;  // of a job

// Keys that every stage has, whatever its kind.
struct StageCommon {
  std::vector<std::string> needs;  // stages that must have ended well, beside those named by inputs
  int ranks = 1;                   // not written: those that the layout needs
  int threads = 0;                 // per rank; 0: cores / ranks
  int nodes = 1;
  Seconds time_limit{0};            // 0: none
  int retries = 1;                  // after faults of the program
  int infrastructure_retries = 5;   // after faults of nodes and launches, without progress in between
  std::string on_failure = "stop";  // stop | continue | skip-dependents
  JobOptions job;                   // what only a cluster's scheduler needs to know
  ResiliencySettings resiliency;    // what is done about faults inside a job
  // Nodes of a job: those that work, and those that wait for one of them to fail.
  int nodes_with_spares() const { return nodes + resiliency.spares; }
};
const FieldTable<StageCommon>& stage_common_fields();
// Keys of a stage's table that the workflow itself reads: kind, inputs, matrix, best, parallel, hyperparameters,
// recipe, for, faults and the common fields.
std::vector<std::string> workflow_stage_keys();

}  // namespace longhaul
