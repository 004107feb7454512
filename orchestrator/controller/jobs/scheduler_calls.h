// What a controller asks of its scheduler: intents of the ledger are carried out, and what came of them are facts.
// Doing one twice is harmless (scheduler.h), so whatever has no answer is asked again by a later round.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "orchestrator/controller/jobs/controlled_run.h"
#include "orchestrator/scheduler/scheduler.h"

namespace longhaul {

class SchedulerCalls {
 public:
  struct Journal {
    std::function<Status()> check_newest;  // conflict: another controller drives the run by now
    std::function<Status(std::vector<Fact>& outcomes)> write;
  };
  SchedulerCalls(const ControlledRun& run, Journal journal) : run_(run), journal_(std::move(journal)) {}
  void open(Scheduler& scheduler) { scheduler_ = &scheduler; }  // outlives it

  // What this round has decided: nobody can have submitted its keys before.
  void begin_round() { fresh_.clear(); }
  void take_decided(const std::vector<Fact>& decided);

  // All but what was refused a short while ago, window by window, with the outcomes written.
  Status submit(std::vector<PendingAct> acts);
  // The outcome of each is added where there is one.
  Status cancel(const PendingAct& act, std::vector<Fact>& outcomes);
  Status release(const PendingAct& act, std::vector<Fact>& outcomes);
  Status lift_exclusions(const PendingAct& act, std::vector<Fact>& outcomes);

  bool is_refused_for_now(const PendingAct& act) const { return refused_.contains(submission_of(act)); }

 private:
  struct PreparedWindow {
    std::vector<std::span<const PendingAct>> groups;  // what one submission serves
    std::vector<JobSpec> specs;                       // one for each
  };
  // A submission that was answered, and not accepted: when it is tried again.
  struct NextTry {
    std::int64_t at_ns = 0, pause_ms = 0;
  };
  Result<PreparedWindow> prepare_window(std::span<const PendingAct> acts) const;
  Status submit_window(const PreparedWindow& window);
  void take_refusal(std::span<const PendingAct> group, const Error& error, std::vector<Fact>& outcomes);

  ControlledRun run_;
  Journal journal_;
  Scheduler* scheduler_ = nullptr;
  std::set<std::string> fresh_;             // keys
  std::map<std::string, NextTry> refused_;  // by key
  std::set<std::string> logged_;            // keys without an answer that the log names already
};

}  // namespace longhaul
