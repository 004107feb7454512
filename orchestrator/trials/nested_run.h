// A run below a stage: the jobs of one round of its trials. It is an ordinary run in rounds/<n>/ of the stage's folder,
// driven by the controller of the run that the stage belongs to. That a trial runs once, whoever is killed when, is
// therefore the promise that every run keeps: the folder is created exclusively, and its own log knows what was
// submitted.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/process/log.h"
#include "base/system/clock.h"
#include "orchestrator/controller/tick.h"
#include "orchestrator/runs/run.h"
#include "orchestrator/state/run_folder.h"

namespace longhaul {

class Controller;

struct NestedRunSetup {
  std::string run_dir;           // of the run that the stage belongs to
  FrozenRun run;                 // its header; the plan is not used
  std::string stage;             // id
  double budget_node_hours = 0;  // that are left; 0: no limit
  TickOptions options;
  // ErrorCode::conflict: another controller drives that run now, and what is below it.
  std::function<Status()> may_act = {};
};

// Of the children of a run; the stage is left open.
NestedRunSetup child_setup(const std::string& run_dir, const FrozenRun& run, const RunLedger& ledger,
                           const TickOptions& options, std::function<Status()> may_act, const Clock& clock);
std::string nested_run_folder(const NestedRunSetup& setup, int number);
// Would the site take the job of this trial? Where there is no scheduler, its programs say themselves what does not
// fit.
Status check_trial_job(const std::string& run_dir, const PlannedStage& trial);

struct NestedRunPlan {
  RunPlan plan;             // its stages
  bool jobs_alone = false;  // of FrozenRun
  decltype(RunOrigin::add) add = {};
};
// Makes rounds/<number>; not an error where it is there already.
Status create_nested_run(const NestedRunSetup& setup, int number, NestedRunPlan planned, const Clock& clock);

class NestedRun {
 public:
  // `setup` is borrowed.
  NestedRun(const NestedRunSetup& setup, int number, Clock& clock, Logger& log);
  ~NestedRun();
  NestedRun(const NestedRun&) = delete;
  NestedRun& operator=(const NestedRun&) = delete;

  // As far as it goes without waiting. conflict: another controller drives the run above; from one that was overtaken
  // there it is taken back.
  Status move_on();
  // Is it ours? Not where moving on has failed: then it is moved on later.
  bool is_ours() const { return controller_ != nullptr; }
  const RunLedger& ledger() const;  // of one that is ours
  std::string folder() const { return nested_run_folder(setup_, number_); }
  // Asks for something (`cancel`, `tell`) and moves on.
  Status ask(const std::string& what, const Value& arguments);
  Status cancel();  // asks for it once
  void leave();     // this controller makes no more rounds of it
  // The scheduler was silent, or what it was asked for may have happened.
  bool unanswered() const;

 private:
  Status open();

  const NestedRunSetup& setup_;
  int number_;
  Clock& clock_;
  Logger& log_;
  std::unique_ptr<Controller> controller_;
};

}  // namespace longhaul
