// The keys of `longhaul plan --json`.
#include "orchestrator/cli/options/json_keys.h"

namespace longhaul {
namespace {

const std::vector<JsonKey>& of_the_plan() {
  static const std::vector<JsonKey> keys = {
      {"file", "text", "longhaul plan"},
      {"format", "integer", "of this document: 2"},
      {"ok", "yes/no", "`run` and `submit` would take it; where it is no, see `errors`"},
      {"workflow", "text", "name"},
      {"budget_node_hours", "number", "of the workflow, where it has one"},
      {"stage.NAME.stage", "text",
       "of each stage of the plan, in an order in which they can start; NAME is stage or "
       "stage/variant"},
      {"stage.NAME.variant", "text", "the combination, of a matrix"},
      {"stage.NAME.kind", "text", "its kind"},
      {"stage.NAME.kind_version", "integer", "raised when results of this kind change"},
      {"stage.NAME.needs", "list", "stages that have to end before"},
      {"stage.NAME.edges.NAME", "text", "where an end that is not a good one will do: afterany, afternotok, milestone"},
      {"stage.NAME.where", "text", "file:line:column of the stage"},
      {"stage.NAME.layout_from", "text", "the tune stage that finds its layout"},
      {"stage.NAME.hyperparameters_from", "text", "the search stage that finds its hyperparameters"},
      {"stage.NAME.device", "text", "on what it computes: gpu, cpu"},
      {"stage.NAME.device_why", "text", "what decided that, where the stage did not"},
      {"stage.NAME.forecast_s", "number", "of a stage on processors, for its job's wall time"},
      {"stage.NAME.common.*", "table", "keys that every stage has, where they are not the default: workflow.md"},
      {"stage.NAME.faults.*", "table", "to be injected: workflow.md"},
      {"stage.NAME.parallel.*", "table", "its layout, where it is not the default: workflow.md"},
      {"stage.NAME.inputs.NAME.stages", "list", "stages of which one makes the input"},
      {"stage.NAME.inputs.NAME.milestone", "integer", "step of the milestone that is taken"},
      {"stage.NAME.inputs.NAME.within", "text", "part of the artifact that is taken"},
      {"stage.NAME.inputs.NAME.paths", "list", "files and folders of a raw input"},
      {"stage.NAME.inputs.NAME.best_metric", "text", "figure by which a variant of a matrix is chosen"},
      {"stage.NAME.inputs.NAME.best_is_max", "yes/no", "the largest is the best"},
      {"stage.NAME.settings.*", "table", "every setting of the stage: stage-kinds.md"},
      {"computing", "list", "of each stage: on what it computes, by which program, in which numbers"},
      {"computing[].stage", "text", "id"},
      {"computing[].device", "text", "gpu, cpu"},
      {"computing[].device_why", "text", "what decided that, where the stage did not"},
      {"computing[].program", "text", "longhaul-engine; of a command its program, or those of its steps"},
      {"computing[].precision", "text", "bf16, f32, int8 weights, ...; left out where a stage has none"},
      {"warnings", "list", "sentences: what keeps nothing from running, such as GPUs beside a stage on processors"},
      {"errors[].code", "text", "of each problem for which `run` would refuse the plan: a name of exit-codes.md"},
      {"errors[].file", "text", "place of the problem"},
      {"errors[].line", "integer", "place of the problem"},
      {"errors[].column", "integer", "place of the problem"},
      {"errors[].what", "text", "what is wrong"},
      {"errors[].hint", "text", "what to do"},
      {"errors", "list", "those"},
  };
  return keys;
}

const std::vector<JsonKey>& of_what_is_done_already() {
  static const std::vector<JsonKey> keys = {
      {"reasons", "list", "of each stage: is it cached, and why not"},
      {"reasons[].stage", "text", "id"},
      {"reasons[].cached", "yes/no", "its artifact is taken from an earlier run"},
      {"reasons[].run", "text", "the run whose artifact it is, or with which the stage was compared; \"\": none"},
      {"reasons[].why", "text", "one sentence; the same stands in the run's log, as `why` of its `ready` fact"},
      {"reasons[].waits_for", "list", "stages that run first, so that it is not known yet whether it is cached"},
      {"reasons[].changes", "list", "what differs from that run"},
      {"reasons[].changes[].what", "text", "setting, input, file, program"},
      {"reasons[].changes[].name", "text", "of the setting, the input, the file of a raw input, the kind"},
      {"reasons[].changes[].from", "text", "what it was; \"\": nothing, or too long"},
      {"reasons[].changes[].to", "text", "what it is; of a file: new, changed, gone"},
      {"cached", "list", "of each stage that would be taken from an earlier run"},
      {"cached[].stage", "text", "id"},
      {"cached[].artifact", "text", "folder"},
      {"cached[].owner_uid", "integer", "whose it is"},
      {"cached[].verified", "yes/no", "your own, or read whole against its manifest before"},
  };
  return keys;
}

const std::vector<JsonKey>& of_what_it_costs() {
  static const std::vector<JsonKey> keys = {
      {"cost.node_hours", "table or null", "of all stages that run and are predicted; null: none is"},
      {"cost.node_hours.low", "number", "with the low ends of all forecasts"},
      {"cost.node_hours.expected", "number", "with the forecasts"},
      {"cost.node_hours.high", "number", "with the high ends of all forecasts"},
      {"cost.days", "table or null", "from the first start to the last end, without queues and faults"},
      {"cost.days.low", "number", "as above"},
      {"cost.days.expected", "number", "as above"},
      {"cost.days.high", "number", "as above"},
      {"cost.energy_kwh", "table or null", "null: no forecast has one"},
      {"cost.energy_kwh.low", "number", "as above"},
      {"cost.energy_kwh.expected", "number", "as above"},
      {"cost.energy_kwh.high", "number", "as above"},
      {"cost.energy_from", "list", "whose power that is"},
      {"cost.predicted", "list", "stages that are in these figures"},
      {"cost.by_rates_of_one_machine", "list", "those of them on processors: a third to three times as long elsewhere"},
      {"cost.not_predicted", "list", "stages that run as well, and that nothing predicts"},
      {"cost.not_predicted_node_hours_at_most", "number or null", "by their time limits; null: one has none"},
      {"cost.trials_not_predicted", "list", "tune and search stages, whose trials' jobs are in none of these figures"},
      {"predicted", "list", "of each training"},
      {"predicted[].stage", "text", "id"},
      {"predicted[].problem", "text", "there is no forecast, and why; then nothing else is there"},
      {"predicted[].device", "text", "for which it holds"},
      {"predicted[].from", "text", "measured_here, measured_elsewhere or arithmetic: what it is made from"},
      {"predicted[].step_seconds", "number", "of one step"},
      {"predicted[].correction", "number", "factor by what was measured at the site, where it is not 1"},
      {"predicted[].step_seconds_low", "number", "low end of the interval"},
      {"predicted[].step_seconds_high", "number", "high end of the interval"},
      {"predicted[].tokens_per_second", "number", "of all ranks"},
      {"predicted[].utilisation", "number", "of the peak in the layout's precision, 0 to 1"},
      {"predicted[].memory_bytes", "integer", "of the rank that holds most"},
      {"predicted[].memory_limit_bytes", "integer", "that it may have, where that is known"},
      {"predicted[].seconds", "number", "of all steps, where their number is known"},
      {"predicted[].gpu_hours", "number", "of all steps"},
      {"predicted[].energy_kwh", "number", "of all steps; absent where nobody says a power"},
      {"predicted[].energy_from", "text", "that power, and whose it is"},
      {"predicted[].checkpoint_bytes", "number", "of one checkpoint, of trainings on GPUs"},
      {"predicted[].checkpoint_seconds", "number",
       "until one is durable at best, where the site says how fast it writes"},
      {"predicted[].parts.NAME", "number", "seconds of a step's parts"},
      {"predicted[].rollout.how", "text", "of answers that the model gives itself: drawn in turn, ahead, or by ranks"},
      {"predicted[].rollout.train_seconds", "number",
       "of a step, to train, as slow as that is while answers are drawn beside it"},
      {"predicted[].rollout.weights_seconds", "number", "of a step, to hand the weights over"},
      {"predicted[].rollout.generate_seconds", "number", "of a step, to draw answers, on the rank that takes longest"},
      {"predicted[].rollout.reference_seconds", "number",
       "of a step, to compare them with the reference or the teacher"},
      {"predicted[].rollout.reward_seconds", "number", "of a step, for a reward model to judge them"},
      {"predicted[].rollout.value_seconds", "number", "of a step, for what a critic expects of them"},
      {"predicted[].rollout.critic_seconds", "number", "of the critic's own step"},
      {"predicted[].rollout.drawing_ranks", "integer", "that only draw (rollout.ranks)"},
      {"predicted[].rollout.memory_bytes", "integer",
       "of a rank that only draws; without any, of a rank beside what it trains"},
      {"predicted[].better.layout", "text", "a layout that the search finds faster"},
      {"predicted[].better.step_seconds", "number", "of that layout"},
      {"predicted[].after_loss_of_a_node.layout", "text", "with which it would go on"},
      {"predicted[].after_loss_of_a_node.nodes", "integer", "on so many"},
      {"predicted[].after_loss_of_a_node.step_seconds", "number", "of that layout"},
      {"predicted[].notes", "list", "sentences"},
      {"predicted_from", "list", "where the figures come from, a sentence each"},
      {"servers", "list", "of each deploy stage whose model is known"},
      {"servers[].*", "table", "as `longhaul serving --json` says of its winner: tuning-serving.md"},
  };
  return keys;
}

const std::vector<JsonKey>& of_the_jobs() {
  static const std::vector<JsonKey> keys = {
      {"no_site", "yes/no", "yes: none was given, so that forecasts, driver and deadlines are left out; else left out"},
      {"driver", "text", "who would drive the run on: here, lead, scrontab, job"},
      {"driver_why", "text", "and why"},
      {"jobs", "list", "of each stage, at a Slurm site"},
      {"jobs[].stage", "text", "id"},
      {"jobs[].device", "text", "gpu, cpu"},
      {"jobs[].class", "text", "of the site; \"\": none"},
      {"jobs[].partition", "text", "asked for; \"\": none"},
      {"jobs[].nodes", "integer", "with spares"},
      {"jobs[].gpus_per_node", "integer", "asked for"},
      {"jobs[].cpus_per_rank", "integer", "asked for"},
      {"jobs[].wall_s", "number", "of one job; 0: the scheduler's"},
      {"jobs[].stop_before_s", "number", "how long before its end the training saves"},
      {"jobs[].resumable", "yes/no", "it goes on in another job"},
      {"jobs[].chain", "yes/no", "it is longer than one job may be"},
      {"jobs[].gpu_hours_at_most", "number", "by its limits"},
      {"jobs[].directives[].option", "text", "of sbatch"},
      {"jobs[].directives[].value", "text", "its value"},
      {"jobs[].directives[].origin", "text", "who says so"},
      {"jobs[].directives", "list", "those"},
      {"jobs[].steps", "list", "of a stage of several programs"},
      {"jobs[].steps[].*", "table", "of a stage of several programs: name, ranks, nodes, CPUs, GPUs, launcher of each"},
      {"jobs[].launcher", "list", "arguments of the command that starts the ranks"},
      {"jobs[].container", "list", "arguments of the command that starts a container"},
      {"deadlines", "list", "lists of deadlines, each for some stages"},
      {"deadlines[].stages", "list", "ids"},
      {"deadlines[].deadlines[].name", "text", "what is waited for"},
      {"deadlines[].deadlines[].seconds", "number", "how long at most"},
      {"deadlines[].deadlines[].setting", "text", "that sets it"},
      {"deadlines[].deadlines", "list", "from the shortest to the longest"},
      {"queue.cluster", "text", "what Slurm says, where it was asked: its name"},
      {"queue.problem", "text", "why it says nothing more"},
      {"queue.answers", "list", "of each job"},
      {"queue.answers[].stage", "text", "id"},
      {"queue.answers[].start_s", "integer", "when it would start, in s since 1970 UTC; 0: not known"},
      {"queue.answers[].partition", "text", "where"},
      {"queue.answers[].nodes", "text", "on which nodes"},
      {"queue.answers[].refused", "text", "why Slurm would not take it"},
      {"queue.notes", "list", "sentences"},
  };
  return keys;
}

}  // namespace

JsonDocument plan_json_document() {
  JsonDocument document{"plan",
                        "Format 2; a document without `file` is of format 1, which had neither `reasons` nor `cost`. "
                        "Parts that do not apply are left out: `jobs` and `queue` at a site without Slurm, `predicted` "
                        "where nothing is. Of a workflow that is wrong: `errors`.",
                        {}};
  for (const auto* keys : {&of_the_plan(), &of_what_is_done_already(), &of_what_it_costs(), &of_the_jobs()})
    document.keys.insert(document.keys.end(), keys->begin(), keys->end());
  return document;
}

}  // namespace longhaul
