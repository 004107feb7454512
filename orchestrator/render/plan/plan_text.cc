#include "orchestrator/render/plan/plan_text.h"

#include <algorithm>

#include "autotune/trials/layout_artifact.h"
#include "base/text/text.h"
#include "base/toml.h"
#include "contracts/records/milestone.h"
#include "contracts/settings/stages/command.h"
#include "contracts/settings/stages/hyper_search.h"
#include "contracts/settings/training/training.h"
#include "orchestrator/render/draw/text_table.h"
#include "orchestrator/workflow/layout/stage_computing.h"
#include "orchestrator/workflow/trials/search_trial.h"
#include "orchestrator/workflow/trials/trial_stage.h"
#include "resiliency/checkpoint_interval.h"

namespace longhaul {
namespace {

// A milestone is named as in the workflow: "pretrain@500".
std::string needs_text(const PlannedStage& stage) {
  std::vector<std::string> needs;
  for (const std::string& id : stage.needs) {
    if (stage.edge_to(id) != NeedEdge::milestone) needs.push_back(id);
    for (const std::int64_t step : stage.milestones_of(id)) needs.push_back(format("{}@{}", id, step));
  }
  if (needs.empty()) return "-";
  if (needs.size() <= 4) return join(needs, ", ");
  return needs[0] + ", " + needs[1] + format(" and {} more", needs.size() - 2);
}

std::string ranks_text(const PlannedStage& stage) {
  std::string text = std::to_string(stage.common.ranks);
  if (stage.common.threads > 0) text += format(" x {} threads", stage.common.threads);
  if (stage.common.nodes > 1) text += format(" on {} nodes", stage.common.nodes);
  return text;
}

// "actor: 2 ranks on 1 node, a service"
std::vector<std::string> step_lines(const PlannedStage& stage) {
  std::vector<std::string> lines;
  if (!stage.settings.find("step")) return lines;
  const auto settings = command_fields().parse(stage.settings, "");
  if (!settings.ok()) return lines;
  for (const CommandStep& step : settings->steps) {
    std::string text = format("  {}: {} rank{}", step.name, step.ranks, step.ranks == 1 ? "" : "s");
    if (step.nodes > 0) text += format(" on {} node{}", step.nodes, step.nodes == 1 ? "" : "s");
    if (step.threads > 0) text += format(", {} threads each", step.threads);
    lines.push_back(text + (step.service ? ", a service" : ""));
  }
  return lines;
}

// "up to 5 trials of 20 steps, at most 30min each on 2 nodes: up to 5 node-hours"
std::string trials_text(const PlannedStage& stage) {
  const TuneSettings settings = tune_settings_of(stage);
  const std::size_t known = written_candidates(stage).size();
  const int trials = known > 0 ? std::min<int>(settings.max_runs, static_cast<int>(known)) : settings.max_runs;
  const std::string what = "for " + stage.settings.get_string(tune_for_key);
  const std::string of = known > 0 ? format(" of {} candidates", known) : std::string();
  if (trials == 0) return what + ": no trials, the best prediction" + of;
  const int nodes = stage.common.nodes_with_spares();
  std::string text = format("{}: up to {} trial{}{}, {} steps on {} node{}", what, trials, trials == 1 ? "" : "s", of,
                            settings.steps, nodes, nodes == 1 ? "" : "s");
  const double limit_s = stage.common.time_limit.value;
  if (limit_s > 0)
    text += format(", each at most {} ({:.3g} node-hours)", human_duration(limit_s), trials * nodes * limit_s / 3600);
  return text;
}

// "for pretrain: 16 trials in 3 rungs of 100, 400 and 1600 steps on 1 node each, 20.3 % of the steps of a full grid"
std::string search_text(const PlannedStage& stage) {
  const std::string what = "for " + stage.settings.get_string(search_for_key);
  const auto halving = halving_of(stage);
  if (!halving.ok()) return what;
  std::vector<std::string> steps;
  for (int rung = 0; rung < halving->rungs(); ++rung) steps.push_back(std::to_string(halving->steps(rung)));
  const std::string last = steps.back();
  steps.pop_back();
  const HyperSearchSettings& settings = halving->settings();
  const int nodes = stage.common.nodes_with_spares();
  return format(
      "{}: {} trial{} in {} rung{} of {} steps on {} rank{}, {} node{} each; {:.3g} k steps, {:.3g} % of a "
      "full grid's",
      what, settings.trials, settings.trials == 1 ? "" : "s", halving->rungs(), halving->rungs() == 1 ? "" : "s",
      steps.empty() ? last : join(steps, ", ") + " and " + last, stage.common.ranks, stage.common.ranks == 1 ? "" : "s",
      nodes, nodes == 1 ? "" : "s", halving->planned_cost().steps / 1000, 100 * halving->planned_cost().share());
}

// What may vary, one line each.
std::string space_lines(const PlannedStage& stage) {
  std::string text;
  if (const Value* space = stage.settings.find(search_space_key))
    for (const ValueMember& parameter : space->as_table())
      text += format("  {}: {}\n", parameter.key, inline_toml(parameter.value));
  return text;
}

std::string candidate_lines(const PlannedStage& stage) {
  std::string text;
  for (const Trial& trial : written_candidates(stage)) {
    Value settings = trial.settings;
    settings.erase("faults");
    text += format("  {}: {}\n", trial.name, inline_toml(settings));
  }
  return text;
}

std::string milestones_text(const PlannedStage& stage) {
  const std::size_t count = milestone_steps(stage.settings).size();
  return count > 0 ? format(", {} milestone{}", count, count == 1 ? "" : "s") : std::string();
}

// "phases warmup, main: 1100 steps, 1.8M tokens"
std::string phases_text(const PlannedStage& stage) {
  if (!stage.settings.find("phase")) return {};
  const auto settings = pretrain_fields().parse(stage.settings, "");
  const auto plan = settings.ok() ? phases_of(*settings, false) : Result<PhasePlan>(settings.error());
  if (!plan.ok()) return {};
  std::vector<std::string> names;
  for (const PlannedPhase& phase : plan->phases) names.push_back(phase.name);
  return format("phases {}: {} steps, {} tokens", join(names, ", "), plan->steps,
                human_count(static_cast<double>(plan->tokens)));
}

// "pretrain: saves about every 33 min, as measured from then on (a save of 10 s, a failure of 64 nodes every 2.4 days)"
std::string interval_line(const PlannedStage& stage) {
  const StageCommon& common = stage.common;
  if (!chooses_interval(common.resiliency, stage.kind, stage.settings, common.nodes, common.time_limit.value))
    return {};
  const double save_s = IntervalSettings().stall_prior_s, failure_s = failure_prior_s(common.nodes);
  return format("{}: saves about every {}, chosen anew while it runs (expected: a save of {}, a fault every {})\n",
                stage.id(), human_duration(daly_interval_s(save_s, failure_s)), human_duration(save_s),
                human_duration(failure_s));
}

std::string epochs_text(double epochs) {
  return format("{:g} epoch{}", epochs, epochs == 1 ? "" : "s");
}

std::string layout_text(const PlannedStage& stage) {
  if (stage.settings.find("step") || stage.kind == "tune" || stage.kind == search_kind_name) return "-";
  return stage.layout_from.empty() ? stage.dims.to_string() : "@" + stage.layout_from;
}

}  // namespace

std::string planned_size_text(const PlannedStage& stage) {
  if (stage.kind == "tune") return trials_text(stage);
  if (stage.kind == search_kind_name) return search_text(stage);
  const std::int64_t batch = stage.settings.get_integer("global_batch_size");
  if (batch < 1) return {};
  std::string text;
  if (stage.kind == "pretrain") {
    const auto settings = pretrain_fields().parse(stage.settings, "");
    if (settings.ok())
      if (const auto shape = resolve_shape(settings->model); shape.ok())
        text = human_count(static_cast<double>(shape->parameter_count())) + " parameters" +
               (shape->vocab_size == 0 ? " beside the embedding, " : ", ");
  }
  if (const std::string phases = phases_text(stage); !phases.empty()) return text + phases + milestones_text(stage);
  text += format("{} x {} tokens a step", batch, stage.settings.get_integer("sequence_length"));
  if (const std::int64_t steps = stage.settings.get_integer("steps"); steps > 0)
    text += format(", {} steps", steps);
  else
    text += ", " + epochs_text(stage.settings.get_number("epochs"));
  return text + milestones_text(stage);
}

std::string plan_text(const RunPlan& plan, bool with_settings) {
  std::vector<std::vector<std::string>> rows = {{"stage", "kind", "ranks", "layout", "computes", "needs", "size"}};
  for (const PlannedStage& stage : plan.stages)
    rows.push_back({stage.id(), stage.kind, ranks_text(stage), layout_text(stage), computing_text(computing_of(stage)),
                    needs_text(stage), planned_size_text(stage)});
  std::string out = "workflow " + plan.workflow +
                    format(": {} stage{}\n\n", plan.stages.size(), plan.stages.size() == 1 ? "" : "s") +
                    text_table(rows);
  for (const PlannedStage& stage : plan.stages)
    if (const auto steps = step_lines(stage); !steps.empty())
      out += "\n" + stage.id() + ": " + format("{} steps in one job\n", steps.size()) + join(steps, "\n") + "\n";
  for (const PlannedStage& stage : plan.stages)
    if (const std::string candidates = stage.kind == "tune" ? candidate_lines(stage) : ""; !candidates.empty())
      out += "\n" + stage.id() + ": candidates for " + stage.settings.get_string(tune_for_key) + "\n" + candidates;
  for (const PlannedStage& stage : plan.stages)
    if (stage.kind == search_kind_name)
      out +=
          format("\n{}: varies of {}\n{}", stage.id(), stage.settings.get_string(search_for_key), space_lines(stage));
  std::string intervals;
  for (const PlannedStage& stage : plan.stages) intervals += interval_line(stage);
  if (!intervals.empty()) out += "\n" + intervals;
  if (!with_settings) return out;
  for (const PlannedStage& stage : plan.stages) {
    Value holder = Value::make_table();
    holder.set(stage.id(), stage.settings);
    out += "\n" + to_toml(holder);
    for (const PlannedInput& input : stage.inputs)
      for (const std::string& path : input.paths) out += "# input " + input.name + ": " + path + "\n";
  }
  return out;
}

}  // namespace longhaul
