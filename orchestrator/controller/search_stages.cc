#include "orchestrator/controller/search_stages.h"

#include <algorithm>
#include <optional>

#include "autotune/hyper/hyper_artifact.h"
#include "base/files.h"
#include "base/json.h"
#include "base/text.h"
#include "contracts/event.h"
#include "orchestrator/controller/job_spec.h"
#include "orchestrator/controller/own_stage.h"
#include "orchestrator/scheduler/local_scheduler.h"
#include "orchestrator/site/site_config.h"
#include "orchestrator/workflow/search_trial.h"
#include "orchestrator/workflow/trial_stage.h"

namespace longhaul {

struct SearchStages::Work {
  explicit Work(hyper::Halving rules) : halving(std::move(rules)) {}
  hyper::Halving halving;
  std::int64_t started_ms = 0;
  int places = 1;  // trials at a time
  std::unique_ptr<RungRuns> runs;
  std::unique_ptr<EventWriter> events;
  std::string told;  // trials.json, as it was written last
};

namespace {

constexpr int search_turns_max = 100;  // of one look: a rung that ends at once is followed by the next

Value standing_for_status(const hyper::TrialStanding& one, const std::string& metric) {
  Value entry = Value::make_table();
  entry.set("name", one.name);
  entry.set("settings", hyper::configuration_text(one.settings));
  entry.set("rung", one.rung);
  entry.set("steps", static_cast<long long>(one.steps));
  entry.set("outcome", hyper::to_string(one.end));
  entry.set("metric", metric);
  if (one.end == hyper::RungEnd::done) entry.set("value", one.metric);
  entry.set("why", one.verdict);
  return entry;
}

}  // namespace

SearchStages::SearchStages(const std::string& run_dir, const FrozenRun& run, const TickOptions& options, Clock& clock,
                           Logger& log, std::function<Status()> may_act)
    : run_dir_(run_dir), run_(run), options_(options), clock_(clock), log_(log), may_act_(std::move(may_act)) {}
SearchStages::~SearchStages() = default;

bool SearchStages::unanswered() const {
  return std::any_of(works_.begin(), works_.end(), [](const auto& entry) { return entry.second->runs->unanswered(); });
}

Status SearchStages::look(const RunLedger& ledger, std::map<std::string, JobInfo>& jobs) {
  for (std::size_t i = 0; i < ledger.stages.size(); ++i) {  // in plan order
    const LedgerStage& stage = ledger.stages[i];
    const PlannedStage& planned = run_.plan.stages[i];
    if (planned.kind != search_kind_name || !stage.job_open() || stage.newest()->job.empty()) continue;
    LH_TRY(JobInfo info, advance(ledger, stage, planned));
    if (info.state == JobState::ended) works_.erase(info.key);
    jobs.insert_or_assign(info.key, std::move(info));
  }
  return {};
}

// Of asha. On one machine a place needs its cores: each trial that is promoted alone has a scheduler of its own, which
// does not know of the others.
Result<int> SearchStages::places_of(const PlannedStage& search, const HyperSearchSettings& settings) const {
  LH_TRY(const Site site, load_site(join_path(run_dir_, "site.toml"), {}));
  if (site.config.is_slurm()) return settings.at_once;
  const int cores = options_.cpu_slots > 0 ? options_.cpu_slots : usable_cores();
  return std::clamp(cores / slots_of_stage(search, cores), 1, settings.at_once);
}

Result<SearchStages::Work*> SearchStages::work_of(const RunLedger& ledger, const LedgerStage& stage,
                                                  const PlannedStage& planned) {
  const LedgerAttempt& attempt = *stage.newest();
  const auto known = works_.find(attempt.key);
  if (known != works_.end()) return known->second.get();
  LH_TRY(hyper::Halving rules, halving_of(planned));
  auto work = std::make_unique<Work>(std::move(rules));
  const HyperSearchSettings& settings = work->halving.settings();
  const std::string attempt_dir = attempt_folder(run_dir_, stage.id, attempt.number);
  LH_TRY(work->started_ms, claim_own_job(attempt_dir, attempt.key, clock_));
  LH_TRY(work->places, places_of(planned, settings));
  RungRunsSetup setup{child_setup(run_dir_, run_, ledger, options_, may_act_, clock_), planned, stage.inputs,
                      settings.metric};
  work->runs = std::make_unique<RungRuns>(std::move(setup), clock_, log_);
  work->events = std::make_unique<EventWriter>(clock_, join_path(attempt_dir, "events.jsonl"), 0);
  return works_.emplace(attempt.key, std::move(work)).first->second.get();
}

Result<JobInfo> SearchStages::advance(const RunLedger& ledger, const LedgerStage& stage, const PlannedStage& planned) {
  const LedgerAttempt& attempt = *stage.newest();
  const std::string attempt_dir = attempt_folder(run_dir_, stage.id, attempt.number);
  JobInfo info = own_job(attempt_dir, attempt);
  if (info.state == JobState::ended) return info;
  const auto ended = [&](const std::string& outcome, const std::string& cause, int exit_code) {
    return end_own_job(attempt_dir, attempt, info, outcome, cause, exit_code, clock_);
  };
  const auto found = work_of(ledger, stage, planned);
  if (!found.ok() && found.error().code == ErrorCode::io) return found.error();
  if (!found.ok()) return ended("failed", found.error().message(), bad_input_exit);
  Work& work = **found;
  info.started_ms = work.started_ms;
  for (int turn = 0; turn < search_turns_max; ++turn) {
    LH_TRY(const std::vector<hyper::Trial> history, work.runs->poll());
    if (attempt.cancel_wanted) {
      LH_CHECK(work.runs->cancel());
      LH_CHECK(work.runs->poll());
      if (work.runs->open()) return info;
      return ended("cancelled", "cancelled on request", 0);
    }
    const bool whole_rungs = work.halving.settings().method == "rounds";
    const hyper::Decision decision =
        work.halving.decide(history, whole_rungs ? 1 : std::max(0, work.places - work.runs->running()));
    tell(stage, work, history, decision.finished);
    if (decision.finished) {
      if (work.runs->open()) return info;
      if (!work.halving.best(history)) return ended("failed", failure_text(decision, history, work), bad_input_exit);
      LH_CHECK(publish(stage, planned, work, history));
      LH_CHECK(work.runs->remove_states());
      return ended("succeeded", "", 0);
    }
    if (decision.starts.empty()) {
      LH_CHECK(work.runs->give_back(work.halving.left_behind(history)));
      return info;
    }
    LH_CHECK(work.runs->submit(decision.starts));
    log_.info(format("event=rung_submitted stage={} round={} trials={} rung={} to_step={}", stage.id,
                     work.runs->rounds(), decision.starts.size(), decision.starts.front().rung,
                     decision.starts.front().to_step));
  }
  return info;
}

// Why there is no winner, with what became of the first trial.
std::string SearchStages::failure_text(const hyper::Decision& decision, const std::vector<hyper::Trial>& history,
                                       const Work& work) {
  const auto standings = hyper::trial_standings(work.halving, history, work.runs->reasons(), true);
  return standings.empty() ? decision.why
                           : format("{}; {}: {}", decision.why, standings.front().name, standings.front().verdict);
}

Status SearchStages::publish(const LedgerStage& stage, const PlannedStage& planned, const Work& work,
                             const std::vector<hyper::Trial>& history) const {
  const auto best = work.halving.best(history);
  hyper::HyperArtifact artifact =
      hyper::make_hyper_artifact(planned.settings.get_string(search_for_key), work.halving, history,
                                 hyper::trial_standings(work.halving, history, work.runs->reasons(), true),
                                 as_settings(best->settings, stands_for_of(planned)));
  artifact.node_hours = work.runs->node_seconds() / 3600;
  artifact.set_aside = work.runs->set_aside();
  return publish_own(run_dir_, run_, stage, planned,
                     {hyper::hyper_file_name, hyper::hyper_artifact_text(artifact), hyper::hyper_figures(artifact)},
                     may_act_, clock_);
}

// For status and for people: what is known of each trial, and how far the work is.
void SearchStages::tell(const LedgerStage& stage, Work& work, const std::vector<hyper::Trial>& history,
                        bool finished) const {
  Value list = Value::make_array();
  for (const auto& one : hyper::trial_standings(work.halving, history, work.runs->reasons(), finished))
    list.push_back(standing_for_status(one, work.halving.settings().metric));
  const std::vector<std::string>& set_aside = work.runs->set_aside();
  Value document = Value::make_table();
  document.set("trials", std::move(list));
  document.set("rounds", work.runs->rounds());
  document.set("set_aside", ValueArray(set_aside.begin(), set_aside.end()));
  const std::string text = to_json_pretty(document);
  if (text == work.told) return;
  work.told = text;
  if (const Status written = write_file_renamed(join_path(stage_folder(run_dir_, stage.id), trials_file_name), text);
      !written.ok())
    log_.warn("event=trials_not_told error='" + written.error().message() + "'");
  const double done = work.halving.cost(history).steps, planned = work.halving.planned_cost().steps;
  work.events->progress(std::min(done, planned), std::max(1.0, planned), "steps of trials");
}

}  // namespace longhaul
