// Trials of a search stage as jobs. What one decision starts is one run below the stage (nested_run.h): a whole rung,
// one trial that is promoted, one that was lost. So the trials of a rung, which ask for the same, are an array of jobs
// where there are arrays. A trial that goes on finds its own newest checkpoint in its new run, as hard links. The
// folders are all that is remembered: starts.json of a run says which trials it starts, its log what became of them.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "autotune/hyper/halving.h"
#include "orchestrator/trials/nested_run.h"
#include "orchestrator/trials/rung_results.h"

namespace longhaul {

struct RungRunsSetup {
  NestedRunSetup child;           // its stage is `search`
  PlannedStage search;            // as planned
  std::vector<TaskInput> inputs;  // of the search stage, which are those of the stage that it is for
  std::string metric;
};

class RungRuns {
 public:
  RungRuns(RungRunsSetup setup, Clock& clock, Logger& log);
  ~RungRuns();
  RungRuns(const RungRuns&) = delete;
  RungRuns& operator=(const RungRuns&) = delete;

  // One run of them. A trial that cannot be planned, or that the site would not take, has crashed at once, with the
  // reason.
  Status submit(std::span<const hyper::TrialStart> starts);
  // Moves open runs on as far as they go without waiting, then says what is known, by trial. Starts that were
  // cancelled with their run are left out, as if nobody had submitted them.
  Result<std::vector<hyper::Trial>> poll();

  Status cancel();  // all jobs; poll() until nothing is open
  bool open() const;
  int running() const;      // starts that have not ended
  bool unanswered() const;  // the scheduler was silent, or what it was asked for may have happened
  int rounds() const { return static_cast<int>(rounds_.size()); }
  double node_seconds() const;  // of all jobs, also of those that were cancelled
  // Of trials whose newest start ended without a metric: what is known of it, by trial.
  const std::map<std::string, std::string>& reasons() const { return reasons_; }
  // What was damaged, or missing where it was needed, by name.
  const std::vector<std::string>& set_aside() const { return set_aside_; }
  // Gives back the checkpoints that nobody goes on from: of the trials `left_behind` (Halving::left_behind of what
  // poll() returned), and of earlier starts of a trial that has come to the end of a later one. Nobody ever sees half
  // of one; what cannot be removed is left for the next time. conflict: another controller drives the run above.
  Status give_back(const std::set<std::string>& left_behind);
  // All checkpoints, once no trial goes on any more.
  Status remove_states();

 private:
  struct Round;
  struct Source;
  Status look_for_rounds();
  Status read_round(Round& round);
  Status move_on(Round& round);
  Status take_outcomes(Round& round, const RunLedger& ledger);
  Result<Source> newest_checkpoint(const hyper::TrialStart& start) const;
  std::map<std::string, int> newest_saved();
  void give_back(Round& round, const std::string& trial, const char* why);
  std::vector<hyper::Trial> history();

  RungRunsSetup setup_;
  Clock& clock_;
  Logger& log_;
  std::vector<std::unique_ptr<Round>> rounds_;  // by number, from 1
  std::map<std::string, std::string> reasons_;
  std::vector<std::string> set_aside_;
};

}  // namespace longhaul
