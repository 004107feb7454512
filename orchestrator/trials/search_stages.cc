#include "orchestrator/trials/search_stages.h"

#include <algorithm>
#include <optional>

#include "autotune/hyper/hyper_artifact.h"
#include "base/files/files.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "orchestrator/controller/inline_stage.h"
#include "orchestrator/job/job_spec.h"
#include "orchestrator/scheduler/local_scheduler.h"
#include "orchestrator/site/site_config.h"
#include "orchestrator/workflow/trials/search_trial.h"
#include "orchestrator/workflow/trials/trial_stage.h"

namespace longhaul {

struct SearchStages::Work final : InlineStages::WorkOf<RungRuns> {
  explicit Work(hyper::Halving rules) : halving(std::move(rules)) {}
  hyper::Halving halving;
  int places = 1;  // trials at a time
};

namespace {

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

SearchStages::SearchStages(const InlineStageSetup& setup) : InlineStages(search_kind_name, setup) {}

// Of asha. On one machine a place needs its cores: each trial that is promoted alone has a scheduler of its own, which
// does not know of the others.
Result<int> SearchStages::places_of(const PlannedStage& search, const HyperSearchSettings& settings) const {
  LH_TRY(const Site site, load_site(join_path(run_dir_, "site.toml"), {}));
  if (site.config.is_slurm()) return settings.at_once;
  const int cores = options_.cpu_slots > 0 ? options_.cpu_slots : usable_cores();
  return std::clamp(cores / slots_of_stage(search, cores), 1, settings.at_once);
}

Result<std::unique_ptr<InlineStages::Work>> SearchStages::begin(const RunLedger& ledger, const LedgerStage& stage,
                                                                const PlannedStage& planned) const {
  LH_TRY(hyper::Halving rules, halving_of(planned));
  auto work = std::make_unique<Work>(std::move(rules));
  const HyperSearchSettings& settings = work->halving.settings();
  LH_TRY(work->places, places_of(planned, settings));
  RungRunsSetup setup{setup_of_children(ledger), planned, stage.inputs, settings.metric};
  work->runs = std::make_unique<RungRuns>(std::move(setup), clock_, log_);
  return std::unique_ptr<InlineStages::Work>(std::move(work));
}

Result<InlineStages::Turn> SearchStages::turn(const LedgerStage& stage, const PlannedStage& planned,
                                              InlineStages::Work& own) {
  Work& work = static_cast<Work&>(own);
  LH_TRY(const std::vector<hyper::Trial> history, work.runs->poll());
  const bool whole_rungs = work.halving.settings().method == "rounds";
  const hyper::Decision decision =
      work.halving.decide(history, whole_rungs ? 1 : std::max(0, work.places - work.runs->running()));
  write_standings(stage, work, history, decision.finished);
  if (decision.finished) {
    if (work.runs->open()) return Turn{};
    if (!work.halving.best(history)) return Turn{Turn::Next::failed, failure_text(decision, history, work)};
    LH_CHECK(publish(stage, planned, work, history));
    LH_CHECK(work.runs->remove_states());
    return Turn{Turn::Next::succeeded};
  }
  if (decision.starts.empty()) {
    LH_CHECK(work.runs->give_back(work.halving.left_behind(history)));
    return Turn{};
  }
  LH_CHECK(work.runs->submit(decision.starts));
  log_.info(format("event=rung_submitted stage={} round={} trials={} rung={} to_step={}", stage.id, work.runs->rounds(),
                   decision.starts.size(), decision.starts.front().rung, decision.starts.front().to_step));
  return Turn{Turn::Next::again};
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
void SearchStages::write_standings(const LedgerStage& stage, Work& work, const std::vector<hyper::Trial>& history,
                                   bool finished) const {
  Value list = Value::make_array();
  for (const auto& one : hyper::trial_standings(work.halving, history, work.runs->reasons(), finished))
    list.push_back(standing_for_status(one, work.halving.settings().metric));
  const std::vector<std::string>& set_aside = work.runs->set_aside();
  Value document = Value::make_table();
  document.set("trials", std::move(list));
  document.set("rounds", work.runs->rounds());
  document.set("set_aside", ValueArray(set_aside.begin(), set_aside.end()));
  report_trials(stage, work, document, work.halving.cost(history).steps, work.halving.planned_cost().steps,
                "steps of trials");
}

}  // namespace longhaul
