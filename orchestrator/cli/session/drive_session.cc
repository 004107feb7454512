#include "orchestrator/cli/session/drive_session.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include "base/files/files.h"
#include "base/text/print.h"
#include "base/text/text.h"
#include "base/text/visible_text.h"
#include "base/toml.h"
#include "orchestrator/cli/session/commands.h"
#include "orchestrator/cli/session/own_environment.h"
#include "orchestrator/cli/session/site_constants.h"
#include "orchestrator/controller/drivers.h"
#include "orchestrator/controller/follower.h"
#include "orchestrator/forecast/layout_candidates.h"
#include "orchestrator/forecast/measured_trainings.h"
#include "orchestrator/job/job_plan.h"
#include "orchestrator/runs/run.h"

namespace longhaul {
namespace {

constexpr std::int64_t second_signal_ms = 5'000;
constexpr std::int64_t cancel_deadline_ms = 120'000;
// How long another controller may take to end the jobs. One that a job's end killed looks alive for a minute elsewhere.
constexpr std::int64_t others_turn_ms = 20'000;

std::size_t terminal_columns() {
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1) return size.ws_col - 1;
  return 99;
}

}  // namespace

DriveSession::DriveSession(ActingRun run, const CommandLine& line)
    : run_dir_(std::move(run.path)),
      log_("controller", "run=" + file_name(run_dir_), LogLevel::info, join_path(run_dir_, "controller.log")),
      view_(::isatty(STDERR_FILENO) == 1, terminal_columns()),
      asked_(line),
      shown_log_(join_path(run_dir_, "controller.log")) {
  options_.worker_fault_plan = line.worker_fault_plan;
  options_.attended = line.command != Command::tick;
  options_.notice = [this](const std::string& sentence) { write(view_.clear() + visible_line(sentence) + "\n"); };
  options_.leave_refused = line.leave_refused;
  of_job_ = line.of_job;
  options_.environment = process_environment();
  options_.programs_dir = std::move(run.programs_dir);
  const std::string constants = join_path(run_dir_, constants_file_name);
  const std::string measured = join_path(run_dir_, measured_file_name);
  options_.search = layout_search_with(constants, measured);
  options_.forecasts = layout_forecasts_with(constants, measured);
  options_.predict = step_prediction_with(constants);
  if (const auto site = read_toml_file(join_path(run_dir_, "site.toml")); site.ok())
    options_.cpu_slots = static_cast<int>(site->get_integer("cpu_slots"));
}

Result<RunStatus> DriveSession::drive_until(std::int64_t deadline_ms) {
  deadline_ns_ = deadline_ms > 0 ? clock_.monotonic_ns() + deadline_ms * 1'000'000 : 0;
  timed_out_ = false;
  drives_ = true;
  auto status = drive(run_dir_, options_, clock_, log_, watch_.stop(), &DriveSession::on_change, this);
  write(view_.clear());
  return status;
}

Result<TickOutcome> DriveSession::move_on(std::int64_t patience_ms) {
  look_after_driver(false);
  auto outcome = tick_until_quiet(run_dir_, options_, patience_ms, clock_, log_, watch_.stop());
  if (outcome.ok() && outcome->state != RunState::running) look_after_driver(true);
  if (outcome.ok()) followed_ = look_after_follower(outcome->open);
  return outcome;
}

Status DriveSession::tend_driver(bool ended) {
  LH_TRY(const FrozenRun frozen, read_frozen_header(run_dir_));
  if (frozen.driver == "here" || frozen.driver == "lead") return {};
  LH_TRY(const Site site, load_site(join_path(run_dir_, "site.toml"), {}));
  const std::string inline_job = options_.environment("SLURM_JOB_ID").value_or("");
  if (!ended) {
    const auto status = read_run_status(run_dir_);
    if (status.ok() && status->state != RunState::running) return {};
    return start_driver(run_dir_, frozen, site, inline_job, options_, log_);
  }
  return end_driver(run_dir_, frozen, site, inline_job, options_, log_);
}

Result<RunStatus> DriveSession::stay(double seconds) {
  look_after_driver(false);
  auto status = drive_until(static_cast<std::int64_t>(seconds * 1e3));
  if (status.ok() && status->state != RunState::running) look_after_driver(true);
  return status;
}

bool DriveSession::second_signal() {
  const int before = watch_.count();
  const Deadline deadline(clock_, second_signal_ms);
  while (!deadline.passed() && watch_.count() == before) clock_.sleep_ms(50);
  return watch_.count() != before;
}

Result<RunStatus> DriveSession::cancel() {
  LH_CHECK(request(run_dir_, "cancel", Value::make_table(), clock_));
  watch_.go_on();
  const int signals = watch_.count();
  const Deadline deadline(clock_, cancel_deadline_ms);
  struct {
    std::int64_t epoch = -1, since_ns = 0;
  } others;
  for (;;) {
    auto status = read_run_status(run_dir_);
    if (!status.ok() || status->state != RunState::running || deadline.passed() || watch_.count() != signals)
      return status;
    if (status->epoch != others.epoch) others = {status->epoch, clock_.monotonic_ns()};
    const bool its_turn = clock_.monotonic_ns() - others.since_ns < others_turn_ms * 1'000'000;
    if (status->driven && !drives_ && its_turn) {  // a process that has just driven it looks like its driver still
      clock_.sleep_ms(500);
      continue;
    }
    const auto driven = drive_until(std::max<std::int64_t>(1, deadline.left_ms()));
    if (!driven.ok() && driven.error().code != ErrorCode::conflict) return driven.error();
    drives_ = driven.ok();
  }
}

bool DriveSession::look_after_follower(bool open) {
  const auto frozen = read_frozen_header(run_dir_);
  if (!frozen.ok() || frozen->driver != "lead") return true;
  const auto site = load_site(join_path(run_dir_, "site.toml"), {});
  const std::string inline_job = of_job_.empty() ? options_.environment("SLURM_JOB_ID").value_or("") : of_job_;
  if (!site.ok()) return !open;
  const auto whole = read_frozen_run(run_dir_);
  if (!whole.ok()) return !open;
  const Status status = tend_follower(run_dir_, *whole, *site, inline_job, open, options_, log_);
  if (!status.ok()) log_.warn("event=follower_not_tended error='" + status.error().message() + "'");
  return status.ok() && site->config.can.shared_nodes == "yes";
}

void DriveSession::look_after_driver(bool ended) {
  if (ended) (void)look_after_follower(false);
  const Status status = tend_driver(ended);
  if (status.ok()) return;
  log_.warn(format("event=driver_not_{} error='{}'", ended ? "ended" : "started", status.error().message()));
}

void DriveSession::write(const std::string& text) const {
  if (!asked_.quiet)
    print_bytes(stderr, text);  // the view draws with control sequences and makes visible what it shows
}

void DriveSession::on_change(void* context, const RunStatus& status) {
  auto* self = static_cast<DriveSession*>(context);
  if (self->asked_.verbose) self->write(self->view_.clear() + visible(self->shown_log_.news()));
  self->write(self->view_.update(status, self->clock_.wall_ms()));
  if (self->deadline_ns_ > 0 && self->clock_.monotonic_ns() >= self->deadline_ns_) {
    self->timed_out_ = true;
    self->watch_.request_stop();
  }
}

}  // namespace longhaul
