// What a stage does about faults inside its job: the table `resiliency` of a stage. Nothing here changes results: no
// key of it is part of a task's key.
#pragma once

#include <string>

#include "contracts/schema/field_table.h"

namespace longhaul {

struct ResiliencySettings {
  int spares = 0;              // further nodes of the job, which wait for one that fails
  bool shrink = false;         // goes on with fewer data-parallel replicas where a node is lost and no spare is left
  int min_replicas = 1;        // never with fewer
  Seconds grow_after{300};     // a lost node that is back for so long is taken back after shrinking; 0: never
  int restarts = -1;           // launches after faults, without a new checkpoint in between; -1: as the kind does
  bool host_suspicion = true;  // a node with two faults is left when another is there
  std::string on_hang;         // "restart" | "report" | "ignore"; "": as the kind does
  Seconds startup{1800};       // until a rank has taken its first steps, and for sections that nobody has timed
  Seconds hang_suspect{0};     // 0: 2.5 times the usual step, at least 1.5 s
  Seconds hang_act{0};         // 0: learned
  double hang_factor = 5;      // learned: the longest seen times this
  Seconds hang_floor{45};      // no learned time is shorter
  std::string checkpoint_interval;  // "as_set" | "online"; "": chooses_interval()
  Seconds host_silent{4.5};         // an agent that was not heard for so long, on a node that nothing else is known of
  Seconds ranks_gone{60};           // after SIGKILL a node has so long to be without ranks before it is left
  std::string health = "act";       // "off" | "watch" | "act": what is done about the health of nodes
  Seconds health_interval{30};
  std::string health_command;  // a site's own check of a node: program and arguments, split at spaces
  Seconds health_command_deadline{60};
  double preflight_floor = 0;  // share of the median of all nodes below which a node is slow; 0: not measured
  Seconds no_progress{0};      // ranks beat, and no step is completed; 0: learned
  // "report" | "swap": a rank that is slower than its peers or than it was; swap leaves its host for a spare
  std::string on_straggler = "report";
  std::string on_nan = "report";  // "report" | "restart" | "stop": a loss that is no number reached the events
};
const FieldTable<ResiliencySettings>& resiliency_fields();

// The choices that are left to the kind of stage, made: those that keep checkpoints go on from them after a fault, and
// those that take steps are known to stand still.
ResiliencySettings resiliency_for(ResiliencySettings settings, const std::string& stage_kind);

// Whether the interval between checkpoints is chosen while the training runs: where the setting says so, and where
// nobody has said anything of saving (checkpoint.every_steps = 0 in `stage_settings`) about a training that has much to
// lose, for more than one node or more than an hour. `time_limit_s`: of the stage; 0: none is known.
bool chooses_interval(const ResiliencySettings& settings, const std::string& stage_kind, const Value& stage_settings,
                      int nodes, double time_limit_s);
// checkpoint.every_steps of a stage's settings.
std::int64_t set_interval_steps(const Value& stage_settings);

}  // namespace longhaul
