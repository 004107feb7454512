// One controller of one run: an epoch, the ledger folded so far, and the round that tick() and drive() do. Everything
// it remembers can be read again from the logs; it is kept only so that a round without news costs a few system calls.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "orchestrator/controller/decide.h"
#include "orchestrator/controller/run_messages.h"
#include "orchestrator/controller/tick.h"
#include "orchestrator/scheduler/scheduler.h"
#include "orchestrator/state/epoch_log.h"
#include "orchestrator/state/run_folder.h"
#include "orchestrator/state/run_index.h"

namespace longhaul {

class Controller {
 public:
  // Claims the next epoch (`epoch` = 0) or goes on with one that this process claimed before.
  static Result<std::unique_ptr<Controller>> open(const std::string& run_dir, std::int64_t epoch,
                                                  const TickOptions& options, Clock& clock, Logger& log);

  // Observe, decide, write intents, act, write outcomes. conflict: another controller took over; do not call again.
  Result<TickOutcome> round();
  std::int64_t epoch() const { return log_file_.epoch(); }
  const RunLedger& ledger() const { return ledger_; }
  RunStatus status() const;

 private:
  Controller(std::string run_dir, FrozenRun frozen, EpochLog log_file, const TickOptions& options, Clock& clock,
             Logger& log);
  Result<Observations> observe();
  void observe_artifact(const LedgerStage& stage, Observations& seen);
  Status write(std::vector<Fact>& facts);
  Status act(std::vector<Fact>& outcomes);
  Status submit(const LedgerStage& stage, std::vector<Fact>& outcomes);
  Status cancel(const LedgerStage& stage, std::vector<Fact>& outcomes);
  Status remove_answered_requests(const Observations& seen);
  void update_index();
  void pulse();

  std::string run_dir_;
  FrozenRun frozen_;
  EpochLog log_file_;
  TickOptions options_;
  Clock& clock_;
  Logger& log_;
  RunLedger ledger_;
  RunMessages messages_;
  std::vector<Fact> unindexed_;
  std::unique_ptr<Scheduler> scheduler_;
  int cores_;
  std::int64_t pulse_ns_ = 0;
  std::size_t refused_logged_ = 0;
};

}  // namespace longhaul
