#include "orchestrator/controller/tick.h"

#include <algorithm>

#include "base/text.h"
#include "orchestrator/controller/controller.h"

namespace longhaul {
namespace {

// Between two rounds: soon after a change, then slower and slower while nothing happens.
constexpr std::int64_t pause_ms_min = 4;

// However the rounds end.
class Leaving {
 public:
  explicit Leaving(const Controller& controller) : controller_(controller) {}
  ~Leaving() { controller_.leave(); }
  Leaving(const Leaving&) = delete;
  Leaving& operator=(const Leaving&) = delete;

 private:
  const Controller& controller_;
};

}  // namespace

Result<TickOutcome> tick(const std::string& run_dir, std::int64_t& epoch, const TickOptions& options, Clock& clock,
                         Logger& log) {
  LH_TRY(const auto controller, Controller::open(run_dir, epoch, options, clock, log));
  epoch = controller->epoch();
  return controller->round();
}

Result<TickOutcome> tick_until_quiet(const std::string& run_dir, const TickOptions& options, std::int64_t patience_ms,
                                     Clock& clock, Logger& log, const std::atomic<bool>& stop) {
  const Deadline deadline(clock, patience_ms);
  std::int64_t pause_ms = pause_ms_min;
  LH_TRY(const auto controller, Controller::open(run_dir, 0, options, clock, log));
  const Leaving leaving(*controller);
  for (;;) {
    LH_TRY(TickOutcome outcome, controller->round());
    const bool open_questions = !outcome.changed && outcome.state == RunState::running && controller->unanswered();
    if (!outcome.changed && !open_questions) return outcome;
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

Result<RunStatus> drive(const std::string& run_dir, const TickOptions& options, Clock& clock, Logger& log,
                        const std::atomic<bool>& stop, void (*on_change)(void* context, const RunStatus&),
                        void* context) {
  LH_TRY(const auto controller, Controller::open(run_dir, 0, options, clock, log));
  const Leaving leaving(*controller);
  std::int64_t pause_ms = pause_ms_min;
  while (!stop.load(std::memory_order_relaxed)) {
    const auto outcome = controller->round();
    if (!outcome.ok() && outcome.error().code == ErrorCode::conflict) {
      log.warn("event=taken_over " + outcome.error().message());
      return outcome.error();
    }
    if (!outcome.ok()) return outcome.error();
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

}  // namespace longhaul
