#include "orchestrator/trials/rung_runs.h"

#include <algorithm>

#include "base/files/file_query.h"
#include "base/files/files.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "contracts/records/checkpoint_format.h"
#include "orchestrator/runs/saved_state.h"
#include "orchestrator/runs/trash.h"
#include "orchestrator/state/epoch_log.h"
#include "orchestrator/trials/trial_results.h"
#include "orchestrator/workflow/trials/search_trial.h"

namespace longhaul {
namespace {

constexpr int rung_rounds_max = 100'000;
constexpr const char* starts_file = "starts.json";

// One start as its run's folder has it.
struct Started {
  hyper::TrialStart start;
  std::string refused;  // why no job was submitted; "": one was
  std::string note;     // what it misses of what it should go on from
};

Value starts_to_value(const std::vector<Started>& starts) {
  Value list = Value::make_array();
  for (const Started& one : starts) {
    Value entry = Value::make_table();
    entry.set("trial", one.start.trial);
    entry.set("settings", one.start.settings);
    entry.set("rung", one.start.rung);
    entry.set("from_step", static_cast<long long>(one.start.from_step));
    entry.set("to_step", static_cast<long long>(one.start.to_step));
    entry.set("why", one.start.why);
    if (!one.refused.empty()) entry.set("refused", one.refused);
    if (!one.note.empty()) entry.set("note", one.note);
    list.push_back(std::move(entry));
  }
  Value document = Value::make_table();
  document.set("starts", std::move(list));
  return document;
}

Result<std::vector<Started>> read_starts(const std::string& folder) {
  const std::string path = join_path(folder, starts_file);
  LH_TRY(const std::string text, read_file(path, 1 << 26));
  LH_TRY(const Value document, parse_json(text, path));
  const Value* list = document.find("starts");
  if (!list || !list->is_array() || list->size() == 0) return make_error(ErrorCode::corrupt, path + " lists no starts");
  std::vector<Started> starts;
  for (const Value& entry : list->as_array()) {
    Started one;
    one.start.trial = entry.get_string("trial");
    if (const Value* settings = entry.find("settings")) one.start.settings = *settings;
    one.start.rung = static_cast<int>(entry.get_integer("rung", -1));
    one.start.from_step = entry.get_integer("from_step", -1);
    one.start.to_step = entry.get_integer("to_step");
    one.start.why = entry.get_string("why");
    one.refused = entry.get_string("refused");
    one.note = entry.get_string("note");
    if (hyper::trial_index(one.start.trial) < 0 || !one.start.settings.is_table() || one.start.rung < 0 ||
        one.start.from_step < 0 || one.start.to_step <= 0)
      return make_error(ErrorCode::corrupt, path + " has a start without trial, settings, rung or steps");
    starts.push_back(std::move(one));
  }
  return starts;
}

std::string stage_of(const std::string& trial) {
  return "trial/" + trial;
}

}  // namespace

struct RungRuns::Round {
  int number = 0;
  std::string folder;
  std::vector<Started> starts;
  FrozenRun frozen;
  std::unique_ptr<NestedRun> run;               // while it is open
  std::map<std::string, RungOutcome> outcomes;  // by trial
  std::string damage;                           // not "": nothing in it counts
  std::set<std::string> saved;                  // trials with the checkpoint of the end of their rung
  std::set<std::string> given_back;             // trials without checkpoints here any more
  bool trash_is_empty = false;                  // a killed controller may have left some
  std::string trash() const { return join_path(folder, trash_folder_name); }
};

struct RungRuns::Source {
  std::string folder;  // of the checkpoint; "": there is none
  std::int64_t step = 0;
};

RungRuns::RungRuns(RungRunsSetup setup, Clock& clock, Logger& log)
    : setup_(std::move(setup)), clock_(clock), log_(log) {
  setup_.child.stage = setup_.search.id();
}
RungRuns::~RungRuns() = default;

bool RungRuns::open() const {
  return std::ranges::any_of(rounds_, [](const auto& round) { return round->run != nullptr; });
}

bool RungRuns::unanswered() const {
  return std::ranges::any_of(rounds_, [](const auto& round) { return round->run && round->run->unanswered(); });
}

int RungRuns::running() const {
  std::ptrdiff_t count = 0;
  for (const auto& round : rounds_)
    if (round->run)
      count += std::ranges::count_if(round->outcomes, [](const auto& entry) {
        return !entry.second.cancelled && entry.second.result.end == hyper::RungEnd::running;
      });
  return static_cast<int>(count);
}

double RungRuns::node_seconds() const {
  double seconds = 0;
  for (const auto& round : rounds_)
    for (const auto& [trial, outcome] : round->outcomes) seconds += outcome.node_seconds;
  return seconds;
}

// A folder appears whole, so whatever is missing in one was damaged.
Status RungRuns::look_for_rounds() {
  for (int number = static_cast<int>(rounds_.size()) + 1; number <= rung_rounds_max; ++number) {
    auto round = std::make_unique<Round>();
    round->number = number;
    round->folder = nested_run_folder(setup_.child, number);
    LH_TRY(const bool made, is_there(round->folder));
    if (!made) return {};
    if (const Status read = read_round(*round); !read.ok()) {
      if (read.error().code == ErrorCode::io || read.error().code == ErrorCode::conflict) return read;
      round->damage = format("round {}: {}", number, read.error().message());
      log_.warn(format("event=round_set_aside stage={} what='{}' next=its_trials_run_again", setup_.search.id(),
                       round->damage));
    }
    rounds_.push_back(std::move(round));
  }
  return {};
}

Status RungRuns::read_round(Round& round) {
  auto frozen = read_frozen_run(round.folder);
  if (!frozen.ok()) return make_error(ErrorCode::corrupt, frozen.error().message());
  round.frozen = std::move(frozen).value();
  auto starts = read_starts(round.folder);
  LH_TRY(const EpochRead read, read_epochs(round.folder));
  RunLedger ledger(round.frozen.stage_ids());
  for (const Fact& fact : read.facts) ledger.apply(fact);
  const bool ended = ledger.ended || round.frozen.plan.stages.empty();
  if (!ended) round.run = std::make_unique<NestedRun>(setup_.child, round.number, clock_, log_);
  if (!starts.ok()) {  // nobody knows what its jobs are for
    if (round.run) LH_CHECK(round.run->cancel());
    return make_error(ErrorCode::corrupt, starts.error().message());
  }
  round.starts = std::move(starts).value();
  return take_outcomes(round, ledger);
}

Status RungRuns::take_outcomes(Round& round, const RunLedger& ledger) {
  for (const Started& one : round.starts) {
    RungOutcome& outcome = round.outcomes[one.start.trial];
    if (outcome.cancelled || outcome.result.end != hyper::RungEnd::running) continue;  // it stays what it was
    if (!one.refused.empty()) {
      outcome.result.end = outcome_of_fault("", "", one.refused) == TrialOutcome::out_of_memory
                               ? hyper::RungEnd::out_of_memory
                               : hyper::RungEnd::crashed;
      outcome.what = one.refused;
      continue;
    }
    const PlannedStage* planned = round.frozen.plan.find(stage_of(one.start.trial));
    const LedgerStage* stage = ledger.find(stage_of(one.start.trial));
    if (!planned || !stage)
      return make_error(ErrorCode::corrupt,
                        format("{} starts {}, which its plan does not have", round.folder, one.start.trial));
    outcome = read_rung_outcome(round.folder, *planned, *stage, setup_.metric);
  }
  return {};
}

Status RungRuns::move_on(Round& round) {
  LH_CHECK(round.run->move_on());
  if (!round.run->is_ours()) return {};  // looked at again, once it is
  if (round.damage.empty()) LH_CHECK(take_outcomes(round, round.run->ledger()));
  if (!round.run->ledger().ended) return {};
  for (const PlannedStage& trial : round.frozen.plan.stages)  // what counts is in the log and in the checkpoint
    LH_CHECK(remove_tree(join_path(stage_folder(round.folder, trial.id()), "out")));
  round.run->leave();
  round.run.reset();
  return {};
}

Result<std::vector<hyper::Trial>> RungRuns::poll() {
  LH_CHECK(look_for_rounds());
  for (const auto& round : rounds_)
    if (round->run) LH_CHECK(move_on(*round));
  return history();
}

std::vector<hyper::Trial> RungRuns::history() {
  std::map<std::string, hyper::Trial> trials;
  set_aside_.clear();
  reasons_.clear();
  for (const auto& round : rounds_) {
    if (!round->damage.empty()) set_aside_.push_back(round->damage);
    for (const Started& one : round->starts) {
      const auto found = round->outcomes.find(one.start.trial);
      if (!round->damage.empty() || found == round->outcomes.end() || found->second.cancelled) continue;
      if (!one.note.empty()) set_aside_.push_back(one.start.trial + ": " + one.note);
      hyper::Trial& trial = trials[one.start.trial];
      if (trial.results.empty()) trial.name = one.start.trial, trial.settings = one.start.settings;
      trial.results.push_back(found->second.result);
      trial.results.back().rung = one.start.rung;
      reasons_[trial.name] = found->second.what;
    }
  }
  std::vector<hyper::Trial> list;
  for (auto& [name, trial] : trials) list.push_back(std::move(trial));
  // What follows nothing that counts does not count either.
  auto sound = hyper::history_from_value(hyper::history_to_value(list), set_aside_);
  return sound.ok() ? std::move(sound).value() : list;
}

// Of whatever start of the trial has come farthest. One with other settings was set aside.
Result<RungRuns::Source> RungRuns::newest_checkpoint(const hyper::TrialStart& start) const {
  Source newest;
  for (const auto& round : rounds_)
    for (const Started& one : round->starts) {
      if (one.start.trial != start.trial || !(one.start.settings == start.settings)) continue;
      const std::string folder = checkpoints_folder(round->folder, stage_of(start.trial));
      LH_TRY(const auto steps, checkpoint_steps(folder));
      for (const std::int64_t step : steps)
        if (step <= start.to_step && step >= newest.step)
          newest = {join_path(folder, checkpoint_folder_name(step)), step};
    }
  return newest;
}

Status RungRuns::submit(std::span<const hyper::TrialStart> starts) {
  NestedRunPlan child;
  std::vector<Started> written;
  std::vector<std::pair<std::string, std::string>> links;  // checkpoint, its place below the new run
  for (const hyper::TrialStart& start : starts) {
    Started one{start, "", ""};
    auto stage = search_trial(setup_.search, start, setup_.inputs);
    Status fits = stage.ok() ? check_trial_job(setup_.child.run_dir, *stage) : Status(stage.error());
    if (fits.ok()) {
      LH_TRY(const Source from, newest_checkpoint(start));
      if (from.step < start.from_step)
        one.note = format("its checkpoint of step {} is gone; rung {} goes on from step {}", start.from_step,
                          start.rung, from.step);
      if (!from.folder.empty())
        links.emplace_back(from.folder,
                           join_path("stages/" + stage_of(start.trial) + "/state/checkpoints", file_name(from.folder)));
      child.plan.stages.push_back(std::move(stage).value());
    } else {
      one.refused = fits.error().message();
    }
    written.push_back(std::move(one));
  }
  child.add = [&](const std::string& beside, const std::string&, FrozenRun&) -> Status {
    LH_CHECK(make_directories(beside));
    for (const auto& [checkpoint, place] : links) LH_CHECK(link_tree(checkpoint, join_path(beside, place)));
    return write_file_atomic(join_path(beside, starts_file), to_json_pretty(starts_to_value(written)));
  };
  LH_CHECK(create_nested_run(setup_.child, rounds() + 1, std::move(child), clock_));
  return look_for_rounds();
}

Status RungRuns::cancel() {
  LH_CHECK(look_for_rounds());
  for (const auto& round : rounds_)
    if (round->run) LH_CHECK(round->run->cancel());
  return {};
}

// By trial: the newest round in which it came to the end of its rung, and has the checkpoint to show for it.
std::map<std::string, int> RungRuns::newest_saved() {
  std::map<std::string, int> newest;
  for (const auto& round : rounds_)
    for (const Started& one : round->starts) {
      const std::string& trial = one.start.trial;
      const auto found = round->outcomes.find(trial);
      if (found == round->outcomes.end() || found->second.result.end != hyper::RungEnd::done ||
          round->given_back.contains(trial))
        continue;
      if (!round->saved.contains(trial)) {
        const auto steps = checkpoint_steps(checkpoints_folder(round->folder, stage_of(trial)));
        if (!steps.ok() || steps->empty() || steps->back() < one.start.to_step) continue;
        round->saved.insert(trial);
      }
      newest[trial] = round->number;
    }
  return newest;
}

void RungRuns::give_back(Round& round, const std::string& trial, const char* why) {
  const auto gone = put_away(join_path(stage_folder(round.folder, stage_of(trial)), "state"), round.trash());
  round.given_back.insert(trial);
  if (!gone.ok())
    log_.warn(format("event=checkpoints_not_given_back stage={} round={} trial={} error='{}' next=with_the_winner",
                     setup_.search.id(), round.number, trial, gone.error().message()));
  if (!gone.ok() || !*gone) return;
  round.trash_is_empty = false;
  log_.info(format("event=checkpoints_given_back stage={} round={} trial={} why={}", setup_.search.id(), round.number,
                   trial, why));
}

Status RungRuns::give_back(const std::set<std::string>& left_behind) {
  const std::map<std::string, int> newest = newest_saved();
  bool may_act = !setup_.child.may_act;
  for (const auto& round : rounds_) {
    for (const Started& one : round->starts) {
      const std::string& trial = one.start.trial;
      const auto outcome = round->outcomes.find(trial);
      if (!round->damage.empty() || outcome == round->outcomes.end() || round->given_back.contains(trial)) continue;
      if (!outcome->second.cancelled && outcome->second.result.end == hyper::RungEnd::running) continue;
      const auto later = newest.find(trial);
      const bool gone_on = later != newest.end() && round->number < later->second;
      if (!gone_on && !left_behind.contains(trial)) continue;
      if (!may_act) LH_CHECK(setup_.child.may_act());
      may_act = true;
      give_back(*round, trial, gone_on ? "gone_on" : "left_behind");
    }
    if (round->trash_is_empty) continue;
    const Status emptied = remove_tree(round->trash());
    round->trash_is_empty = true;  // what resisted goes with the winner: remove_states
    if (!emptied.ok())
      log_.warn(format("event=trash_not_emptied stage={} round={} error='{}' next=with_the_winner", setup_.search.id(),
                       round->number, emptied.error().message()));
  }
  return {};
}

Status RungRuns::remove_states() {
  for (const auto& round : rounds_) {
    for (const PlannedStage& trial : round->frozen.plan.stages)
      LH_CHECK(remove_tree(join_path(stage_folder(round->folder, trial.id()), "state")));
    LH_CHECK(remove_tree(round->trash()));
  }
  return {};
}

}  // namespace longhaul
