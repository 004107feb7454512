// What a run looks like from outside, folded from its epoch logs (never from memory of a controller): for status,
// reports and the end of `run`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/value/value.h"
#include "orchestrator/workflow/layout/stage_computing.h"

namespace longhaul {

// Do not renumber: written by name in logs and the index.
enum class StageState { waiting, ready, submitted, running, succeeded, cached, failed, cancelled, skipped };
const char* to_string(StageState state);
bool is_final(StageState state);

// One candidate of a tune stage, or one trial of a search.
struct TrialStatus {
  std::string name, outcome, why;
  // Of a search: its configuration, how far it came, and its figure there ("": it has none).
  std::string settings;
  int rung = 0;
  std::int64_t steps = 0;
  std::string metric, value;
};

struct StageStatus {
  std::string id;  // "sft" or "sft/lr=1e-05"
  std::string kind;
  StageComputing computing;  // on what, by which program, in which numbers
  StageState state = StageState::waiting;
  int attempts = 0;
  std::int64_t submitted_ms = 0, started_ms = 0, ended_ms = 0;  // 0: not yet
  std::string cause;                                            // why it failed, was skipped or cancelled
  std::string fault, verdict;  // of a failed stage: the fault's class, and why it was not tried again; "": not known
  std::string why;             // it ran, and was not taken from an earlier run; "": not known
  std::string waits_for;       // "milestone 500 of pretrain": while it waits for one; "" otherwise
  // Why it gets no further, though nothing has failed: by "limit", "busy", "unknown" (its submission is refused for
  // now) or "queue"; since when, as the scheduler gives it, and what a person can do. "" by: nothing.
  std::string held_up_by, held_up, held_up_advice;
  std::int64_t held_up_since_ms = 0;
  std::string folder;              // stages/<id> below the run
  std::string artifact;            // folder of the artifact, also when it came from an earlier run
  std::int64_t artifact_uid = -1;  // whose that is, where it came from an earlier run; -1: not known
  std::string job;                 // the scheduler's id of the newest attempt
  Value figures;                   // table: name = value
  // Of the newest progress event; total 0: none.
  double progress_done = 0, progress_total = 0, progress_rate = 0, eta_s = 0;
  std::string progress_unit;
  // Of the newest metric events, while it runs: what was not reported yet is not there.
  std::optional<double> newest_loss, newest_heldout_loss, tokens_per_s, mfu;
  std::vector<std::int64_t> milestones;  // steps of those that it has published
  // Of a tune or search stage, as its controller wrote them down.
  std::vector<TrialStatus> trials;
  std::vector<std::string> set_aside;  // results of trials that are damaged, by name
};

// An order that was given to a stage.
struct OrderStatus {
  std::string stage, text;  // "pretrain", "stop after step 500"
  std::string outcome;      // "" while it is on its way
  bool done = false;
};

// Something that was asked of the run: by the owner of the file that did, -1 where the log does not say it.
struct RequestStatus {
  std::string what, answer;
  bool accepted = false;
  std::int64_t uid = -1, at_ms = 0;
};

enum class RunState { running, succeeded, failed, cancelled };
const char* to_string(RunState state);

struct RunStatus {
  std::string run;  // folder
  std::string name;
  std::string workflow;
  std::string workflow_path;  // the file that it was made from; "": not known
  RunState state = RunState::running;
  std::int64_t created_ms = 0, ended_ms = 0;
  std::int64_t epoch = 0;
  bool driven = false;          // somebody ticks it (its driver's process lives, or ticked within the last 90 s)
  std::string driver = "here";  // who is to tick it: here | lead | scrontab | job
  // Owners of the run's folder and of its newest log, whose controller drove it last; -1: not known.
  std::int64_t owner_uid = -1, driver_uid = -1;
  bool own = true;                      // of the user of this process
  std::vector<StageStatus> stages;      // in plan order
  std::vector<OrderStatus> orders;      // as they were accepted
  std::vector<RequestStatus> requests;  // in the order in which they were answered
  std::vector<std::string> notes;       // further things that people should know, one line each

  const StageStatus* find(const std::string& id) const;
};
// For --json, and in report.json: what has not happened yet is null. Format 2; in format 1, which had neither `file`
// nor `format`, that was 0 or "".
inline constexpr int status_format = 2;
Value run_status_to_value(const RunStatus& status);

// Reads logs, records and the tails of event files. Does not change anything.
Result<RunStatus> read_run_status(const std::string& run_dir);  // status_from_ledger.h: of what is read already

}  // namespace longhaul
