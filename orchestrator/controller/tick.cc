#include "orchestrator/controller/tick.h"

#include <algorithm>

#include "base/text/text.h"
#include "orchestrator/controller/controller.h"
#include "orchestrator/controller/idle_look.h"

namespace longhaul {
namespace {

// Between two rounds: soon after a change, then slower and slower while nothing happens.
constexpr std::int64_t pause_ms_min = 4;
constexpr int rounds_at_once_max = 100;  // of a single tick: each of them has changed something

// However the rounds end.
class Leaving {
 public:
  explicit Leaving(Controller& controller) : controller_(controller) {}
  ~Leaving() { controller_.leave(); }
  Leaving(const Leaving&) = delete;
  Leaving& operator=(const Leaving&) = delete;

 private:
  Controller& controller_;
};

// What a shared file system, or a full disk, may answer once: the round is made again, by a controller that claims
// anew, for a log that has given an error is not appended to again.
constexpr std::int64_t errors_for_ms = 60'000;
constexpr std::int64_t full_disk_before_a_person_ms = 5'000;
constexpr std::int64_t error_pause_ms_min = 100, error_pause_ms_max = 2'000;

bool may_pass(const Error& error) {
  return error.code == ErrorCode::io || error.code == ErrorCode::unavailable || error.code == ErrorCode::timeout;
}
bool is_full_disk(const Error& error) {
  const std::string text = error.message();
  return text.find("No space left on device") != std::string::npos || text.find("quota exceeded") != std::string::npos;
}

// Errors that follow each other without a round between them.
class ErrorPatience {
 public:
  explicit ErrorPatience(Clock& clock) : clock_(clock) {}

  void well() { since_ns_ = -1, pause_ms_ = error_pause_ms_min; }
  // False: enough. Otherwise after a pause, each longer than the one before.
  bool goes_on(const Error& error, std::int64_t for_ms, Logger& log) {
    const std::int64_t now = clock_.monotonic_ns();
    if (since_ns_ < 0) since_ns_ = now;
    if (!may_pass(error) || (now - since_ns_) / 1'000'000 >= for_ms) return false;
    log.warn(format("event=round_failed error='{}' next=again_in_{}_ms", error.message(), pause_ms_));
    clock_.sleep_ms(pause_ms_);
    pause_ms_ = std::min(2 * pause_ms_, error_pause_ms_max);
    return true;
  }

 private:
  Clock& clock_;
  std::int64_t since_ns_ = -1, pause_ms_ = error_pause_ms_min;
};

Result<TickOutcome> rounds_until_quiet(const std::string& run_dir, const TickOptions& options, const Deadline& deadline,
                                       ErrorPatience& errors, Clock& clock, Logger& log,
                                       const std::atomic<bool>& stop) {
  std::int64_t pause_ms = pause_ms_min;
  LH_TRY(FrozenRun frozen, read_frozen_run(run_dir));
  LH_TRY(const auto idle, look_if_idle(run_dir, frozen, options, clock, log));
  if (idle) return *idle;
  LH_TRY(const auto controller, Controller::open(run_dir, std::move(frozen), 0, options, clock, log));
  const Leaving leaving(*controller);
  for (;;) {
    LH_TRY(TickOutcome outcome, controller->round());
    errors.well();
    outcome.open = outcome.state == RunState::running && controller->unanswered();
    const bool waits = outcome.open && !(options.leave_refused && controller->waits_for_limits());
    if (!outcome.changed && !waits) return outcome;
    if (stop.load(std::memory_order_relaxed) || deadline.passed()) return outcome;
    if (outcome.changed) {
      pause_ms = pause_ms_min;
      controller->ask_again();
    } else {
      pause_ms = std::min(pause_ms * 2, std::max<std::int64_t>(2'000, controller->poll_interval_ms()));
      clock.sleep_ms(pause_ms);
      controller->ask_again();
    }
  }
}

Result<RunStatus> drive_with_one_epoch(const std::string& run_dir, const TickOptions& options, ErrorPatience& errors,
                                       Clock& clock, Logger& log, const std::atomic<bool>& stop,
                                       void (*on_change)(void* context, const RunStatus&), void* context) {
  LH_TRY(const auto controller, Controller::open(run_dir, 0, options, clock, log));
  const Leaving leaving(*controller);
  std::int64_t pause_ms = pause_ms_min;
  while (!stop.load(std::memory_order_relaxed)) {
    const auto outcome = controller->round();
    if (!outcome.ok() && outcome.error().code == ErrorCode::conflict)
      log.warn("event=taken_over " + outcome.error().message());
    if (!outcome.ok()) return outcome.error();
    errors.well();
    if (on_change) on_change(context, controller->status());
    if (outcome->changed) {
      pause_ms = pause_ms_min;
      continue;
    }
    if (outcome->state != RunState::running) break;
    clock.sleep_ms(pause_ms);
    pause_ms = std::min(controller->pause_ms_max(), pause_ms + pause_ms / 4 + 1);
  }
  return controller->status();
}

}  // namespace

Result<TickOutcome> tick(const std::string& run_dir, std::int64_t& epoch, const TickOptions& options, Clock& clock,
                         Logger& log) {
  LH_TRY(FrozenRun frozen, read_frozen_run(run_dir));
  if (epoch == 0) {
    LH_TRY(const auto idle, look_if_idle(run_dir, frozen, options, clock, log));
    if (idle) return *idle;
  }
  LH_TRY(const auto controller, Controller::open(run_dir, std::move(frozen), epoch, options, clock, log));
  epoch = controller->epoch();
  return controller->round();
}

Result<TickOutcome> tick_once(const std::string& run_dir, const TickOptions& options, Clock& clock, Logger& log) {
  LH_TRY(FrozenRun frozen, read_frozen_run(run_dir));
  LH_TRY(const auto idle, look_if_idle(run_dir, frozen, options, clock, log));
  if (idle) return *idle;
  LH_TRY(const auto controller, Controller::open(run_dir, std::move(frozen), 0, options, clock, log));
  const Leaving leaving(*controller);
  bool changed = false;
  for (int rounds = 1;; ++rounds) {
    LH_TRY(TickOutcome outcome, controller->round());
    const bool more = outcome.changed && outcome.state == RunState::running && rounds < rounds_at_once_max;
    outcome.changed = changed = changed || outcome.changed;
    outcome.open = outcome.state == RunState::running && controller->unanswered();
    if (!more) return outcome;
    controller->ask_again();
  }
}

Result<TickOutcome> tick_until_quiet(const std::string& run_dir, const TickOptions& options, std::int64_t patience_ms,
                                     Clock& clock, Logger& log, const std::atomic<bool>& stop) {
  const Deadline deadline(clock, patience_ms);
  ErrorPatience errors(clock);
  for (;;) {
    auto outcome = rounds_until_quiet(run_dir, options, deadline, errors, clock, log, stop);
    if (outcome.ok() || stop.load(std::memory_order_relaxed) || deadline.passed()) return outcome;
    if (!errors.goes_on(outcome.error(), patience_ms, log)) return outcome;  // an error is not quiet
  }
}

Result<RunStatus> drive(const std::string& run_dir, const TickOptions& options, Clock& clock, Logger& log,
                        const std::atomic<bool>& stop, void (*on_change)(void* context, const RunStatus&),
                        void* context) {
  ErrorPatience errors(clock);
  for (;;) {
    auto status = drive_with_one_epoch(run_dir, options, errors, clock, log, stop, on_change, context);
    if (status.ok() || stop.load(std::memory_order_relaxed)) return status;
    const std::int64_t for_ms =
        options.attended && is_full_disk(status.error()) ? full_disk_before_a_person_ms : errors_for_ms;
    if (!errors.goes_on(status.error(), for_ms, log)) return status;
  }
}

}  // namespace longhaul
