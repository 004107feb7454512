#include "engine/train/loop/memory_copies.h"

#include <algorithm>

#include "base/text/text.h"
#include "engine/train/loop/in_process_restart.h"

namespace longhaul {

bool MemoryCopies::is_due() const {
  const TrainingLoopOptions& options = context_.options;
  const bool wanted =
      options.restart && options.snapshot_every_steps > 0 && context_.beat && context_.beat->restart_wait_ms() > 0;
  return wanted && !refused_ && state_.version() >= next_;
}

bool MemoryCopies::make_room() {
  if (snapshot_) return true;
  Result<MemorySnapshot> made = MemorySnapshot::create(state_.view(), context_.options.snapshot_account);
  refused_ = !made.ok();
  if (refused_)
    context_.events.message("warn", "no copy of the training is kept in memory: " + made.error().message());
  else
    snapshot_.emplace(std::move(made).value());
  return !refused_;
}

void MemoryCopies::keep(std::int64_t interval) {
  if (!is_due()) return;
  context_.enter("snapshot");
  if (!make_room()) return;
  const std::int64_t begun = context_.clock.monotonic_ns();
  snapshot_->take(context_.trainer.context(), state_.view(), state_.version());
  // One that was disturbed says little of the next.
  const double seconds = context_.seconds_since(begun);
  seconds_ = seconds_ > 0 ? std::min(seconds, 1.1 * seconds_) : seconds;
  next_ = state_.version() + std::max<std::int64_t>(1, interval);
  if (reported_interval_ == 0 && context_.step_seconds > 0) report(std::max<std::int64_t>(1, interval));
}

void MemoryCopies::report(std::int64_t interval) {
  reported_interval_ = interval;
  context_.events.message(
      "info", format("a copy of the training ({}) is kept in memory, now every {} steps: it takes {:.2f} ms, "
                     "a step {:.1f} ms",
                     human_bytes(static_cast<double>(snapshot_->bytes())), interval, seconds_ * 1e3,
                     context_.step_seconds * 1e3));
}

std::int64_t MemoryCopies::interval() const {
  if (!snapshot_) return 0;
  const TrainingLoopOptions& options = context_.options;
  return copy_interval(options.snapshot_every_steps, seconds_, context_.step_seconds, options.snapshot_share_max);
}

void MemoryCopies::begin_again() {
  next_ = state_.version();
  if (snapshot_ && snapshot_->version() > state_.version()) snapshot_->forget();
}

}  // namespace longhaul
