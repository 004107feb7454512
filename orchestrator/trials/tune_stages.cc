#include "orchestrator/trials/tune_stages.h"

#include <algorithm>
#include <cstdlib>

#include "autotune/trials/layout_artifact.h"
#include "base/files/file_query.h"
#include "base/files/files.h"
#include "base/process/fault_point.h"
#include "base/text/text.h"
#include "base/toml.h"
#include "base/value/json.h"
#include "contracts/plan/memory_plan.h"
#include "orchestrator/controller/inline_stage.h"
#include "orchestrator/decide/decide.h"
#include "orchestrator/forecast/layout_request.h"
#include "orchestrator/forecast/measured_trainings.h"
#include "orchestrator/forecast/stage_outline.h"
#include "orchestrator/runs/run.h"
#include "orchestrator/site/site_config.h"
#include "orchestrator/workflow/trials/trial_stage.h"

namespace longhaul {

struct TuneStages::Work final : InlineStages::WorkOf<TrialRuns> {
  std::vector<Trial> candidates;
  ConfirmationLimits limits;
};

namespace {

// Of the rank that is planned to hold most; 0: not known before the trial runs.
std::int64_t predicted_bytes(const PlannedStage& target, const Trial& trial, const SiteConfig& site) {
  const auto stage = stage_with(target, trial.settings);
  const auto outline = stage.ok() ? stage_outline(*stage, site) : Result<TrainingOutline>(stage.error());
  if (!outline.ok()) return 0;
  const auto worst = plan_worst_rank(*outline);
  return worst.ok() ? worst->plan.bytes.total() : 0;
}

Value candidates_to_value(const std::vector<Trial>& candidates) {
  Value list = Value::make_array();
  for (const Trial& trial : candidates) {
    Value entry = Value::make_table();
    entry.set("name", trial.name);
    entry.set("settings", trial.settings);
    entry.set("steps", static_cast<long long>(trial.steps));
    entry.set("predicted_seconds", trial.predicted_seconds);
    entry.set("predicted_sigma", trial.predicted_sigma);
    if (trial.predicted_from) entry.set("predicted_from", to_string(*trial.predicted_from));
    entry.set("correction", trial.correction);
    entry.set("predicted_bytes", static_cast<long long>(trial.predicted_bytes));
    entry.set("like_kind", trial.like.kind);
    entry.set("like_at", Value(ValueArray(trial.like.at.begin(), trial.like.at.end())));
    list.push_back(std::move(entry));
  }
  return list;
}

std::vector<Trial> candidates_from_value(const Value& list) {
  std::vector<Trial> candidates;
  if (!list.is_array()) return candidates;
  for (const Value& entry : list.as_array()) {
    Trial trial;
    trial.name = entry.get_string("name");
    if (const Value* settings = entry.find("settings")) trial.settings = *settings;
    trial.steps = entry.get_integer("steps");
    trial.predicted_seconds = entry.get_number("predicted_seconds");
    trial.predicted_sigma = entry.get_number("predicted_sigma");
    trial.predicted_from = forecast_source_from(entry.get_string("predicted_from"));
    trial.correction = entry.get_number("correction", 1);
    trial.predicted_bytes = entry.get_integer("predicted_bytes");
    trial.like.kind = entry.get_string("like_kind");
    if (const Value* at = entry.find("like_at"); at && at->is_array())
      for (const Value& coordinate : at->as_array())
        if (coordinate.is_number()) trial.like.at.push_back(coordinate.as_number());
    candidates.push_back(std::move(trial));
  }
  return candidates;
}

ConfirmationLimits limits_of(const TuneSettings& settings) {
  ConfirmationLimits limits;
  limits.max_runs = settings.max_runs;
  limits.at_once = settings.at_once;
  limits.confidence = settings.confidence;
  limits.steps_to_judge =
      std::min<int>(limits.steps_to_judge, static_cast<int>(settings.steps - settings.warmup_steps));
  return limits;
}

double tokens_per_step(const PlannedStage& stage) {
  return static_cast<double>(stage.settings.get_integer("global_batch_size")) *
         static_cast<double>(stage.settings.get_integer("sequence_length"));
}

}  // namespace

TuneStages::TuneStages(const InlineStageSetup& setup) : InlineStages(tune_kind_name, setup) {}

// The list is found once and written down: a later controller, of a later version, goes on with the same.
Result<std::vector<Trial>> TuneStages::candidates_of(const PlannedStage& tune, const PlannedStage& target,
                                                     const std::string& folder) const {
  const std::string path = join_path(folder, candidates_file_name);
  LH_TRY(const bool found_before, is_there(path));
  if (!found_before) {
    LH_TRY(const Site site, load_site(join_path(run_dir_, "site.toml"), {}));
    const PlannedStage known = with_vocabulary(target, run_.plan);
    std::vector<Trial> found = written_candidates(tune);
    if (found.empty()) {
      if (!options_.search)
        return make_error(ErrorCode::unsupported, "no candidates given and this version has no search",
                          "write candidates = [{ parallel = { ... } }, ...] in the stage");
      LH_TRY(found, options_.search(run_.plan, tune, known, site.config));
    }
    for (Trial& trial : found)
      if (trial.predicted_bytes == 0) trial.predicted_bytes = predicted_bytes(known, trial, site.config);
    const Status written = create_file_exclusive(path, to_json_pretty(candidates_to_value(found)));
    if (!written.ok() && written.error().code != ErrorCode::conflict) return written.error();
  }
  LH_TRY(const std::string text, read_file(path));
  LH_TRY(const Value list, parse_json(text, path));
  std::vector<Trial> candidates = candidates_from_value(list);
  keep_forecast(tune, target, candidates, folder);
  return candidates;
}

// For the report. Nothing is decided by it, so that a stage does not fail for it.
void TuneStages::keep_forecast(const PlannedStage& tune, const PlannedStage& target,
                               const std::vector<Trial>& candidates, const std::string& folder) const {
  const std::string path = join_path(folder, predictions_file_name);
  if (!options_.forecasts || file_exists(path)) return;
  const auto site = load_site(join_path(run_dir_, "site.toml"), {});
  auto forecast =
      site.ok() ? options_.forecasts(run_.plan, tune, with_vocabulary(target, run_.plan), candidates, site->config)
                : Result<TuningForecast>(site.error());
  if (!forecast.ok()) {
    log_.info(format("event=nothing_predicted stage={} reason='{}'", tune.id(), forecast.error().message()));
    return;
  }
  const Status kept = create_file_exclusive(path, to_json_pretty(tuning_forecast_to_value(*forecast)));
  if (!kept.ok() && kept.error().code != ErrorCode::conflict)
    log_.warn("event=predictions_not_kept error='" + kept.error().message() + "'");
}

Result<std::unique_ptr<InlineStages::Work>> TuneStages::begin(const RunLedger& ledger, const LedgerStage& stage,
                                                              const PlannedStage& planned) const {
  LH_TRY(const PlannedStage target, target_of(planned));
  auto work = std::make_unique<Work>();
  LH_TRY(work->candidates, candidates_of(planned, target, stage_folder(run_dir_, stage.id)));
  work->limits = limits_of(tune_settings_of(planned));
  TrialRunsSetup setup{setup_of_children(ledger), planned, target, stage.inputs};
  work->runs = std::make_unique<TrialRuns>(std::move(setup), clock_, log_);
  return std::unique_ptr<InlineStages::Work>(std::move(work));
}

Result<InlineStages::Turn> TuneStages::turn(const LedgerStage& stage, const PlannedStage& planned,
                                            InlineStages::Work& own) {
  Work& work = static_cast<Work&>(own);
  LH_TRY(const std::vector<TrialResult> results, work.runs->poll());
  const ConfirmationDecision decision = decide_confirmation(work.candidates, results, work.limits);
  write_standings(stage, work, results, decision);
  for (const std::string& name : decision.stop) LH_CHECK(work.runs->stop(name));
  if (decision.finished) {
    if (work.runs->open()) return Turn{};
    if (decision.winner.empty()) return Turn{Turn::Next::failed, decision.problem};
    LH_CHECK(publish(stage, planned, work, results, decision));
    keep_for_later(stage, work, decision);
    return Turn{Turn::Next::succeeded};
  }
  if (decision.run.empty()) return Turn{};
  std::vector<Trial> next;
  for (const std::string& name : decision.run)
    for (const Trial& trial : work.candidates)
      if (trial.name == name) next.push_back(trial);
  LH_CHECK(work.runs->submit(next));
  log_.info(format("event=trials_submitted stage={} round={} trials={}", stage.id, work.runs->rounds(),
                   join(decision.run, ",")));
  return Turn{Turn::Next::again};
}

Status TuneStages::publish(const LedgerStage& stage, const PlannedStage& planned, const Work& work,
                           const std::vector<TrialResult>& results, const ConfirmationDecision& decision) const {
  LH_TRY(const PlannedStage target, target_of(planned));
  std::vector<Trial> candidates = work.candidates;
  for (Trial& trial : candidates) trial.settings.erase("faults");  // of a test, not of the layout
  LayoutArtifact artifact =
      make_layout_artifact(target.id(), candidates, results, decision, work.limits, tokens_per_step(target));
  artifact.node_hours = work.runs->node_seconds() / 3600;
  return publish_own(run_dir_, run_, stage, planned,
                     {layout_file_name, layout_artifact_text(artifact), layout_figures(artifact)}, may_act_, clock_);
}

// What this site measured, for later predictions. Nothing of this run depends on it; done twice, it is the same file.
void TuneStages::keep_for_later(const LedgerStage& stage, const Work& work,
                                const ConfirmationDecision& decision) const {
  std::vector<double> seconds;
  for (const CandidateVerdict& verdict : decision.candidates)
    seconds.push_back(verdict.state == CandidateState::measured ? verdict.seconds.centre : 0);
  const auto keep = [&]() -> Status {
    const std::string folder = stage_folder(run_dir_, stage.id), predicted = join_path(folder, predictions_file_name);
    const std::string constants = join_path(run_dir_, constants_file_name);
    if (!file_exists(predicted) || !file_exists(constants)) return {};  // nothing was predicted
    MeasuringStage measuring{.run = run_.name, .stage = stage.id, .at_ms = work.started_ms};
    LH_TRY(const std::string text, read_file(predicted));
    LH_TRY(const Value predictions, parse_json(text, predicted));
    LH_TRY(measuring.constants_text, read_file(constants));
    LH_TRY(const Site site, load_site(join_path(run_dir_, "site.toml"), {}));
    measuring.site = site.config.name;
    return keep_measured(parent_path(run_dir_), access_of(site.values), measuring,
                         measured_trials(work.candidates, seconds, predictions.get_string("device")));
  };
  if (const Status kept = keep(); !kept.ok())
    log_.warn("event=measured_not_kept error='" + kept.error().message() + "'");
}

// For status and for people: what is known of each candidate, and how far the work is.
void TuneStages::write_standings(const LedgerStage& stage, Work& work, const std::vector<TrialResult>& results,
                                 const ConfirmationDecision& decision) const {
  Value list = Value::make_array();
  int over = 0;
  for (const CandidateVerdict& verdict : decision.candidates) {
    const auto result =
        std::find_if(results.begin(), results.end(), [&](const TrialResult& one) { return one.name == verdict.name; });
    Value entry = Value::make_table();
    entry.set("name", verdict.name);
    entry.set("outcome", result == results.end() ? "not run" : to_string(result->outcome));
    entry.set("why", verdict.why);
    if (verdict.seconds.known()) {
      entry.set("step_seconds", verdict.seconds.centre);
      entry.set("step_seconds_half", verdict.seconds.half_width());
    }
    if (verdict.predicted_seconds > 0) {
      const ForecastRange range = forecast_range(verdict.predicted_seconds, verdict.predicted_sigma);
      entry.set("predicted_seconds", verdict.predicted_seconds);
      entry.set("predicted_low", range.low), entry.set("predicted_high", range.high);
    }
    if (result != results.end()) {
      entry.set("steps_done", static_cast<long long>(result->steps_done));
      if (result->peak_bytes > 0) entry.set("peak_bytes", static_cast<long long>(result->peak_bytes));
      if (result->node_seconds > 0) entry.set("node_hours", result->node_seconds / 3600);
      over += is_over(result->outcome) ? 1 : 0;
    }
    list.push_back(std::move(entry));
  }
  Value document = Value::make_table();
  document.set("trials", std::move(list));
  document.set("winner", decision.winner);
  document.set("rounds", work.runs->rounds());
  const int total = std::min<int>(work.limits.max_runs, static_cast<int>(work.candidates.size()));
  report_trials(stage, work, document, over, total, "trials");
}

}  // namespace longhaul
