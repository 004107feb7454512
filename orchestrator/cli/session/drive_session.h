// One run as this process drives it: rounds until it ends or somebody stops it, shown as they come, and its driver put
// to work or taken away. One thread; made by the commands that act on a run.
#pragma once

#include <cstdint>
#include <string>

#include "base/process/log.h"
#include "base/system/clock.h"
#include "orchestrator/cli/session/asked_run.h"
#include "orchestrator/cli/session/log_tail.h"
#include "orchestrator/cli/session/signals.h"
#include "orchestrator/controller/tick.h"
#include "orchestrator/render/run/progress_view.h"

namespace longhaul {

class DriveSession {
 public:
  // `line` is borrowed.
  DriveSession(ActingRun run, const CommandLine& line);

  // A record that its lead could not write, for the next round.
  void take(JobRecord unwritten) { options_.unwritten_record = std::move(unwritten); }

  // Until the run ends, a signal, or the deadline (0: none).
  Result<RunStatus> drive_until(std::int64_t deadline_ms);
  // Rounds until nothing changes, with the run's driver at work before and gone at the end.
  Result<TickOutcome> move_on(std::int64_t patience_ms);
  // Whether somebody comes back for what the last move_on() left open.
  bool followed() const { return followed_; }
  // Puts the run's driver to work, or takes it away when the run has ended.
  Status tend_driver(bool ended);
  // For so long, or to the run's end: what a driver's own job does.
  Result<RunStatus> stay(double seconds);
  // True if another signal comes within 5 s.
  bool second_signal();
  // Its controller ends the jobs while it has one, and this process does as soon as it has none: a controller may be
  // killed, or be the last round of a job, at any moment; one that has not ended them within 20 s is not waited for.
  // Over the deadline (2 minutes), or stopped by a signal: the status as it is then.
  Result<RunStatus> cancel();

  const std::string& run_dir() const { return run_dir_; }
  SystemClock& clock() { return clock_; }
  const SignalWatch& watch() const { return watch_; }
  bool timed_out() const { return timed_out_; }
  TickOptions& options() { return options_; }
  Logger& log() { return log_; }

 private:
  // A run is moved on also by one who cannot reach its driver: the driver itself may be all that is left of it.
  bool look_after_follower(bool open);
  void look_after_driver(bool ended);
  void write(const std::string& text) const;
  static void on_change(void* context, const RunStatus& status);

  std::string run_dir_;
  SystemClock clock_;
  Logger log_;
  ProgressView view_;
  TickOptions options_;
  SignalWatch watch_;
  std::int64_t deadline_ns_ = 0;
  bool timed_out_ = false;
  bool followed_ = true;
  std::string of_job_;  // whose lead makes this round
  const CommandLine& asked_;
  LogTail shown_log_;
  bool drives_ = false;  // this process held the newest epoch when it looked last
};

}  // namespace longhaul
