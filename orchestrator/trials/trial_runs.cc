#include "orchestrator/trials/trial_runs.h"

#include <algorithm>
#include <set>

#include "base/files/file_query.h"
#include "base/files/files.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "orchestrator/state/epoch_log.h"
#include "orchestrator/trials/trial_results.h"
#include "orchestrator/workflow/trials/trial_stage.h"

namespace longhaul {
namespace {

constexpr int rounds_max = 10'000;
constexpr const char* refused_file = "refused.json";

// What was never submitted, beside the jobs of the round.
std::string refused_text(const std::vector<TrialResult>& refused) {
  Value list = Value::make_array();
  for (const TrialResult& one : refused) {
    Value entry = Value::make_table();
    entry.set("name", one.name);
    entry.set("what", one.what);
    entry.set("memory", one.outcome == TrialOutcome::out_of_memory);
    list.push_back(std::move(entry));
  }
  return to_json_pretty(list);
}

std::vector<TrialResult> read_refused(const std::string& folder) {
  std::vector<TrialResult> refused;
  const auto text = read_file(join_path(folder, refused_file), 1 << 24);
  const auto list = text.ok() ? parse_json(*text, refused_file) : Result<Value>(text.error());
  if (!list.ok() || !list->is_array()) return refused;
  for (const Value& entry : list->as_array()) {
    TrialResult result;
    result.name = entry.get_string("name");
    result.what = entry.get_string("what");
    result.outcome = entry.get_bool("memory") ? TrialOutcome::out_of_memory : TrialOutcome::refused;
    result.begun = false;
    refused.push_back(std::move(result));
  }
  return refused;
}

}  // namespace

TrialRuns::TrialRuns(TrialRunsSetup setup, Clock& clock, Logger& log)
    : setup_(std::move(setup)), clock_(clock), log_(log) {
  setup_.child.stage = setup_.tune.id();
}
TrialRuns::~TrialRuns() = default;

std::string TrialRuns::round_folder(int round) const {
  return nested_run_folder(setup_.child, round);
}

// Rounds are numbered without gaps, and each has ended before the next is made.
Status TrialRuns::look_for_rounds() {
  for (int round = static_cast<int>(plans_.size()) + 1; round <= rounds_max; ++round) {
    LH_TRY(const bool made, is_there(join_path(round_folder(round), "resolved.toml")));
    if (!made) return {};
    LH_TRY(FrozenRun frozen, read_frozen_run(round_folder(round)));
    plans_.emplace(round, std::move(frozen));
    open_round_ = round;
    round_ = std::make_unique<NestedRun>(setup_.child, round, clock_, log_);
    newest_.clear();
  }
  return {};
}

Status TrialRuns::submit(std::span<const Trial> trials) {
  LH_CHECK(look_for_rounds());
  std::set<std::string> known;
  LH_TRY(const std::vector<TrialResult> results, poll());
  for (const TrialResult& result : results) known.insert(result.name);
  RunPlan plan;
  std::vector<TrialResult> refused;
  for (const Trial& trial : trials) {
    if (!known.insert(trial.name).second) continue;
    auto stage = trial_stage(setup_.target, setup_.tune, trial, setup_.inputs);
    Status fits = stage.ok() ? check_trial_job(setup_.child.run_dir, *stage) : Status(stage.error());
    if (fits.ok()) {
      plan.stages.push_back(std::move(stage).value());
      continue;
    }
    TrialResult result;
    result.name = trial.name;
    result.outcome = TrialOutcome::refused;
    result.what = fits.error().message();
    result.begun = false;
    if (outcome_of_fault("", "", result.what) == TrialOutcome::out_of_memory)
      result.outcome = TrialOutcome::out_of_memory;
    refused.push_back(std::move(result));
  }
  if (plan.stages.empty() && refused.empty()) return {};
  if (open())
    return make_error(ErrorCode::conflict, format("round {} of {} has not ended", open_round_, setup_.tune.id()));
  const int round = static_cast<int>(plans_.size()) + 1;
  NestedRunPlan child;
  child.plan = std::move(plan);
  child.jobs_alone = true;
  child.add = [&](const std::string& beside, const std::string&, FrozenRun&) -> Status {
    LH_CHECK(make_directories(beside));
    return write_file_atomic(join_path(beside, refused_file), refused_text(refused));
  };
  LH_CHECK(create_nested_run(setup_.child, round, std::move(child), clock_));
  return look_for_rounds();
}

Status TrialRuns::move_on() {
  return open() ? round_->move_on() : Status();
}

Result<std::vector<TrialResult>> TrialRuns::results_of(int round, const FrozenRun& frozen,
                                                       const RunLedger& ledger) const {
  std::vector<TrialResult> results = read_refused(round_folder(round));
  const std::int64_t warmup = tune_settings_of(setup_.tune).warmup_steps;
  for (std::size_t i = 0; i < frozen.plan.stages.size(); ++i)  // both in plan order
    results.push_back(read_trial_result(round_folder(round), frozen.plan.stages[i], ledger.stages[i], warmup));
  return results;
}

Result<std::vector<TrialResult>> TrialRuns::poll() {
  LH_CHECK(look_for_rounds());
  for (const auto& [round, frozen] : plans_) {
    if (over_.contains(round)) continue;
    if (round == open_round_) {
      LH_CHECK(move_on());
      if (!round_->is_ours()) continue;  // looked at again, once it is
      LH_TRY(newest_, results_of(round, frozen, round_->ledger()));
      if (!round_->ledger().ended) continue;
      for (const PlannedStage& trial : frozen.plan.stages) {  // what was measured is in the events
        const std::string stage = stage_folder(round_folder(round), trial.id());
        for (const char* folder : {"state", "out"}) LH_CHECK(remove_tree(join_path(stage, folder)));
      }
      round_->leave();
      round_.reset();
      open_round_ = 0;
      over_.emplace(round, std::move(newest_));
      newest_.clear();
      continue;
    }
    LH_TRY(const EpochRead read, read_epochs(round_folder(round)));
    RunLedger ledger(frozen.stage_ids());
    for (const Fact& fact : read.facts) ledger.apply(fact);
    LH_TRY(auto results, results_of(round, frozen, ledger));
    over_.emplace(round, std::move(results));
  }
  std::vector<TrialResult> all;
  node_seconds_ = 0;
  const auto add = [&](const std::vector<TrialResult>& results, bool ended) {
    for (const TrialResult& result : results) {
      node_seconds_ += result.node_seconds;
      if (ended && !is_over(result.outcome)) continue;  // cancelled with its round
      std::erase_if(all, [&](const TrialResult& earlier) { return earlier.name == result.name; });
      all.push_back(result);
    }
  };
  for (const auto& [round, results] : over_) add(results, true);
  add(newest_, false);
  return all;
}

Status TrialRuns::stop(const std::string& name) {
  LH_TRY(const std::vector<TrialResult> results, poll());
  const auto found =
      std::find_if(results.begin(), results.end(), [&](const TrialResult& one) { return one.name == name; });
  if (found == results.end()) return make_error(ErrorCode::not_found, "no trial '" + name + "' was submitted");
  if (is_over(found->outcome) || !open() || !round_->is_ours()) return {};
  const std::string stage = "trial/" + name;
  for (const LedgerOrder& order : round_->ledger().orders)
    if (order.stage == stage) return {};  // it has been sent
  const LedgerStage* at = round_->ledger().find(stage);
  if (!at || !at->job_open()) return {};  // asked again when it has begun
  Value arguments = Value::make_table();
  arguments.set("what", "stop_after");
  arguments.set("value", static_cast<double>(found->steps_done + 1));
  arguments.set("stage", stage);
  return round_->ask("tell", arguments);
}

Status TrialRuns::cancel() {
  LH_CHECK(look_for_rounds());
  return open() ? round_->cancel() : Status();
}

bool TrialRuns::unanswered() const {
  return open() && round_->unanswered();
}

}  // namespace longhaul
