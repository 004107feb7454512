// Room orchestrator/trials
// The stages that a controller carries out by running trials: tune, search, and calibrations.
// inline_stages.h is what tune_stages.h and search_stages.h share; nested_run.h is the run below a stage.
// trial_runs.h and rung_runs.h turn trials into jobs; *_results.h read what these left.
// What to try next is not decided here but in autotune/trials and autotune/hyper.
//
// The stages of one kind that a controller carries out itself (inline_stage.h), in its own rounds: each is moved on as
// far as it goes without waiting, and everybody else sees how it stands as if it were a job. What it runs, what it
// decides and what it publishes is its kind's: tune_stages.h, search_stages.h. Nothing is remembered that the folders
// do not say: a controller that is killed is followed by one that reads the same and decides the same.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "contracts/events/event.h"
#include "orchestrator/controller/inline_stage_runner.h"
#include "orchestrator/scheduler/scheduler.h"
#include "orchestrator/trials/nested_run.h"

namespace longhaul {

class InlineStages : public InlineStageRunner {
 public:
  InlineStages(std::string kind, const InlineStageSetup& setup);
  ~InlineStages() override;
  InlineStages(const InlineStages&) = delete;
  InlineStages& operator=(const InlineStages&) = delete;

  Status look(const RunLedger& ledger, std::map<std::string, JobInfo>& jobs) override;
  bool unanswered() const override;

 protected:
  // One attempt, as this controller knows it.
  struct Work {
    virtual ~Work() = default;
    virtual bool open() const = 0;        // jobs of it have not ended
    virtual bool unanswered() const = 0;  // the scheduler was silent, or what it was asked for may have happened
    virtual Status cancel() = 0;          // all of them, as far as that goes without waiting

    std::int64_t started_ms = 0;
    std::unique_ptr<EventWriter> events;
    std::string written_text;  // trials.json, as it was written last
  };
  // Whose trials are those of one TrialRuns or RungRuns.
  template <class Runs>
  struct WorkOf : Work {
    std::unique_ptr<Runs> runs;

    bool open() const override { return runs->open(); }
    bool unanswered() const override { return runs->unanswered(); }
    Status cancel() override {
      LH_CHECK(runs->cancel());
      LH_CHECK(runs->poll());
      return {};
    }
  };
  struct Turn {
    enum class Next { again, wait, succeeded, failed };
    Next next = Next::wait;
    std::string cause = {};  // of `failed`: what trying again does not cure
  };
  // Everything but what Work has by itself.
  virtual Result<std::unique_ptr<Work>> begin(const RunLedger& ledger, const LedgerStage& stage,
                                              const PlannedStage& planned) const = 0;
  // Sees what is known now, decides, and does it.
  virtual Result<Turn> turn(const LedgerStage& stage, const PlannedStage& planned, Work& work) = 0;

  // For status and for people: `trials` is what is known of each, and `done` of `total` how far the work is.
  void report_trials(const LedgerStage& stage, Work& work, const Value& trials, double done, double total,
                     const char* unit) const;
  NestedRunSetup setup_of_children(const RunLedger& ledger) const {
    return child_setup(run_dir_, run_, ledger, options_, may_act_, clock_);
  }

  const std::string run_dir_;
  const FrozenRun& run_;
  TickOptions options_;
  Clock& clock_;
  Logger& log_;
  std::function<Status()> may_act_;

 private:
  Result<JobInfo> advance(const RunLedger& ledger, const LedgerStage& stage, const PlannedStage& planned);
  Result<Work*> work_of(const RunLedger& ledger, const LedgerStage& stage, const PlannedStage& planned);

  const std::string kind_;
  std::map<std::string, std::unique_ptr<Work>> works_;  // by submission key
};

}  // namespace longhaul
