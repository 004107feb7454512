// Room orchestrator/controller
// The rounds of a run: read what is, decide, write the intents, act, write the outcomes.
// tick.h is one round from outside, controller.h the round itself; run_journal.h is what it writes down.
// drivers.h and follower.h say who starts the next round; orchestrator/controller/jobs sees and starts jobs.
// It does not know how trials work: they are handed in through inline_stage_runner.h.
//
// One round of the crash-only controller: read what is, decide (pure), write the intents, act, write the outcomes. It
// can be killed between any two instructions; the next tick continues. See docs/architecture.md, section 5.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/process/log.h"
#include "base/system/clock.h"
#include "contracts/records/record.h"
#include "orchestrator/forecast/layout_search.h"
#include "orchestrator/notify/secret.h"
#include "orchestrator/state/run_status.h"

namespace longhaul {

struct TickOptions {
  std::string worker_fault_plan;   // handed to the leads that this tick starts (tests)
  std::string programs_dir = {};   // that drive the run and do its work; empty: the run's own (state/run_access.h)
  int cpu_slots = 0;               // of the local scheduler; 0: cores of this machine
  Environment environment = {};    // for the webhook's secret; empty: none is read
  LayoutSearch search = {};        // of tune stages without candidates of their own; empty: there is none
  LayoutForecasts forecasts = {};  // of the candidates of tune stages; empty: none are kept
  StepPrediction predict = {};     // of pretrainings that ended; empty: what they took is not kept
  // Of a job at its end whose lead could not write it: believed as if it lay in its place.
  std::optional<JobRecord> unwritten_record = {};
  // What the scheduler refuses for now is left to a later round: every minute of this one has its price.
  bool leave_refused = false;
  bool attended = false;  // a person waits: a full disk is reported soon, other errors are waited for all the same
  std::function<void(const std::string&)> notice = {};  // a sentence for that person about what takes long
};

struct TickOutcome {
  RunState state = RunState::running;
  bool changed = false;  // something was decided: tick again soon
  bool open = false;     // something has no outcome yet, or is refused for now: somebody has to come back for it
};

// Claims the next epoch on its first call for a run that has something to do; `epoch` is kept by the caller between
// ticks (0: none yet). ErrorCode::conflict: another controller has claimed a later epoch; this one must stop.
Result<TickOutcome> tick(const std::string& run_dir, std::int64_t& epoch, const TickOptions& options, Clock& clock,
                         Logger& log);

// Rounds until one changes nothing, without waiting for anything; then the controller leaves. One alone would not do:
// it may have taken the run from the last round of a job's lead, which then leaves everything to it.
Result<TickOutcome> tick_once(const std::string& run_dir, const TickOptions& options, Clock& clock, Logger& log);

// Ticks until a round changes nothing, the run has ended, `stop` is set or `patience_ms` has passed. A scheduler that
// does not answer, a submission whose fate is not known yet or that is refused for now, and errors of the file system
// are waited for: nobody may come after this to make the round that failed. Where there is nothing to do no epoch is
// claimed.
Result<TickOutcome> tick_until_quiet(const std::string& run_dir, const TickOptions& options, std::int64_t patience_ms,
                                     Clock& clock, Logger& log, const std::atomic<bool>& stop);

// Drives ticks until the run ends, `stop` is set (by a signal handler), or another controller takes over. `on_change`
// sees the status after every tick (for progress). Returns the last status. Errors of the file system are tried again
// for a minute, with a new epoch.
Result<RunStatus> drive(const std::string& run_dir, const TickOptions& options, Clock& clock, Logger& log,
                        const std::atomic<bool>& stop, void (*on_change)(void* context, const RunStatus&),
                        void* context);

}  // namespace longhaul
