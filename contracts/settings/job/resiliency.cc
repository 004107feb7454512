#include "contracts/settings/job/resiliency.h"

#include "contracts/settings/job/resumable.h"

namespace longhaul {

const FieldTable<ResiliencySettings>& resiliency_fields() {
  using R = ResiliencySettings;
  static const auto table =
      FieldTable<R>()
          .field("spares", &R::spares,
                 {.unit = "nodes",
                  .help = "further nodes of the job; one takes the place of a node that fails",
                  .min = 0,
                  .max = 1e5})
          .field("shrink", &R::shrink,
                 {.help = "a training that has lost a node, without a spare for it, goes on with fewer data-parallel "
                          "replicas and the same global batch, until its node is back (grow_after) or the job ends"})
          .field("min_replicas", &R::min_replicas,
                 {.unit = "replicas", .help = "a training does not shrink below that", .min = 1, .max = 1e6})
          .field(
              "grow_after", &R::grow_after,
              {.help = "a node that a training has shrunk for is taken back once it was heard of and fit to work for "
                       "so long without a break, and no sooner after the ranks were started: they save, end and "
                       "start with more replicas again. Once for each node; 0s: never",
               .min = 0})
          .field("restarts", &R::restarts,
                 {.help = "starts of the ranks after a fault, within one job and without a new checkpoint in between; "
                          "-1: 3 for stages that keep checkpoints, else 0",
                  .min = -1,
                  .max = 1000})
          .field("host_suspicion", &R::host_suspicion,
                 {.help = "a node with its second fault is left where a spare is there; one that keeps a training "
                          "below the floor of goodput, whatever it costs"})
          .field("on_hang", &R::on_hang,
                 {.help = "ranks that stand still are started again, only reported, or not looked at; empty: started "
                          "again where the stage takes steps",
                  .choices = {"", "restart", "report", "ignore"}})
          .field("startup", &R::startup,
                 {.help = "allowed until the first steps are done, and for sections that were never timed", .min = 1})
          .field("hang_suspect", &R::hang_suspect,
                 {.help = "standing still so long is reported, with the culprit; 0s: 2.5 step times, at least 1.5s",
                  .min = 0})
          .field("hang_act", &R::hang_act,
                 {.help = "standing still so long is a hang; 0s: the longest time seen times hang_factor", .min = 0})
          .field("hang_factor", &R::hang_factor, {.help = "of the learned timeouts of sections", .min = 1, .max = 1000})
          .field("hang_floor", &R::hang_floor,
                 {.help = "the shortest learned time; 45s survive a fabric that is silent for 30s", .min = 0.1})
          .field("checkpoint_interval", &R::checkpoint_interval,
                 {.help = "steps between checkpoints: as checkpoint.every_steps has them, or chosen while the training "
                          "runs, by what a save costs and how often it fails; empty: online for a training without "
                          "every_steps that has more than one node or a time_limit of more than an hour",
                  .choices = {"", "as_set", "online"}})
          .field("no_progress", &R::no_progress,
                 {.help = "ranks beat and complete no step for so long: started again; 0s: the longest step seen times "
                          "hang_factor, at least startup",
                  .min = 0})
          .field(
              "on_straggler", &R::on_straggler,
              {.help = "a rank that is slower than its peers, or than it was, is reported, or its host is left for a "
                       "spare once a checkpoint is there",
               .choices = {"report", "swap"}})
          .field("on_nan", &R::on_nan,
                 {.help = "a program reported a loss that is no number: reported, started again from what it saved, or "
                          "ended; which samples come then is the program's to say. The engine answers by itself before "
                          "it makes the update: on_spike.action, whose rollback leaves samples out",
                  .choices = {"report", "restart", "stop"}})
          .field("host_silent", &R::host_silent,
                 {.help = "a node that was not heard of for so long is lost, where the ranks of all others wait for "
                          "its ranks",
                  .min = 0.5})
          .field("ranks_gone", &R::ranks_gone,
                 {.help = "a node on which a rank is still there so long after SIGKILL is left; not where the rank is "
                          "blocked by a file system, or where ranks of many nodes are still there: that is waited for, "
                          "at most startup",
                  .min = 0.1})
          .field(
              "health", &R::health,
              {.help = "GPUs, network ports, memory and file systems of every node: watched and reported, not looked "
                       "at, or also acted upon: a node that is not fit to work is left while a spare is there",
               .choices = {"off", "watch", "act"}})
          .field("health_interval", &R::health_interval,
                 {.help = "between two looks at a node; the GPU driver's errors (XID) are heard at once", .min = 0.5})
          .field("health_command", &R::health_command,
                 {.help = "a check of your own: program and arguments, run on every node before the first launch; exit "
                          "code 0 means fit to work, anything else refuses the node with the last line it printed"})
          .field("health_command_deadline", &R::health_command_deadline,
                 {.help = "of health_command; a node where it takes longer is refused", .min = 1, .max = 3600})
          .field(
              "preflight_floor", &R::preflight_floor,
              {.help = "every node multiplies matrices, copies memory and exchanges bytes with other nodes before the "
                       "first launch; one below this share of the median of all is left where a spare is there, else "
                       "reported; 0: not measured",
               .min = 0,
               .max = 0.99});
  return table;
}

ResiliencySettings resiliency_for(ResiliencySettings settings, const std::string& stage_kind) {
  if (settings.restarts < 0) settings.restarts = trains(stage_kind) ? 3 : 0;
  // A command is only looked at once it has beaten.
  if (settings.on_hang.empty()) settings.on_hang = trains(stage_kind) || stage_kind == "command" ? "restart" : "ignore";
  return settings;
}

std::int64_t set_interval_steps(const Value& stage_settings) {
  const Value* checkpoint = stage_settings.find("checkpoint");
  return checkpoint ? checkpoint->get_integer("every_steps") : 0;
}

bool chooses_interval(const ResiliencySettings& settings, const std::string& stage_kind, const Value& stage_settings,
                      int nodes, double time_limit_s) {
  constexpr double much_to_lose_s = 3600;
  if (!settings.checkpoint_interval.empty()) return settings.checkpoint_interval == "online";
  return trains(stage_kind) && set_interval_steps(stage_settings) == 0 && (nodes > 1 || time_limit_s > much_to_lose_s);
}

}  // namespace longhaul
