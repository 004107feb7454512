// Settings of the stage kind `command`: any program in the engine's place, under the same worker; or several programs,
// the steps, at the same time in one job.
#pragma once

#include "contracts/schema/field_table.h"

namespace longhaul {

// [stage.x.step.NAME]: one of several programs.
struct CommandStep {
  std::string name;
  std::vector<std::string> argv;
  std::string script;
  std::map<std::string, std::string> environment;  // beside the stage's; wins over it
  int ranks = 1;
  int nodes = 0;           // of its own; 0 in every step: all of them share each node of the stage
  int threads = 0;         // per rank; 0: an even share
  int gpus_per_node = -1;  // -1: of nodes of its own all that the job has; of shared ones a share by ranks
  bool service = false;    // ended when all others have ended well
};
const FieldTable<CommandStep>& command_step_fields();

struct CommandSettings {
  std::vector<std::string> argv;  // program and arguments; no shell
  std::string script;             // or a text for `bash -euo pipefail`
  std::map<std::string, std::string> environment;
  std::string device = "auto";     // | cpu | gpu: contracts/settings/training/compute_device.h
  std::string workdir;             // where programs start: absolute, or relative to workdir_from
  std::string workdir_from;        // absolute; "" in tasks of earlier versions
  std::vector<CommandStep> steps;  // or these, in the order of their nodes
};
const FieldTable<CommandSettings>& command_fields();

// The absolute folder in which its programs start; "": that of the artifact.
std::string working_folder(const CommandSettings& settings);

// The part of a variable's name that a step gives: "learner-1" is LEARNER_1, in LONGHAUL_STEP_HOSTS_LEARNER_1.
std::string step_variable(const std::string& name);

}  // namespace longhaul
