// status and report: commands that only read a run. None of them writes below it, or drives it.
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/files/files.h"
#include "base/system/clock.h"
#include "base/text/print.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "orchestrator/cli/session/asked_run.h"
#include "orchestrator/cli/session/commands.h"
#include "orchestrator/cli/session/load_workflow.h"
#include "orchestrator/cli/session/signals.h"
#include "orchestrator/cli/session/status_document.h"
#include "orchestrator/controller/drivers.h"
#include "orchestrator/render/report/report.h"
#include "orchestrator/render/run/goodput_text.h"
#include "orchestrator/render/run/left_servers.h"
#include "orchestrator/render/run/metrics_text.h"
#include "orchestrator/render/run/status_text.h"
#include "orchestrator/runs/purge.h"

namespace longhaul {
namespace {

// Lines in the caller's scrontab that Slurm has disabled drive nothing, and look like a run that waits. Looks only, and
// not even that where the run decides what is executed and is not the caller's.
std::string scrontab_text(const CommandLine& line, const Installation& installation, const RunStatus& status) {
  if (status.driver != "scrontab" || status.state != RunState::running) return {};
  const auto acting = acting_run(line, installation);
  if (!acting.ok() || !acting->programs_dir.empty()) return {};
  const std::string& run_dir = acting->path;
  const auto frozen = read_frozen_header(run_dir);
  const auto site = load_site(join_path(run_dir, "site.toml"), {});
  if (!frozen.ok() || !site.ok()) return {};
  const auto state = look_at_scrontab(run_dir, *frozen, *site);
  if (!state.ok()) return "\nthe scrontab that drives this run is not known: " + state.error().message() + "\n";
  if (*state == ScrontabState::active) return {};
  return format(
      "\nits lines in your scrontab {}: nothing new starts; this puts them to work again:\n  longhaul tick {} "
      "--until-quiet\n",
      *state == ScrontabState::disabled ? "are disabled, as after a maintenance or scancel" : "are gone",
      shell_quoted(run_dir));
}

}  // namespace

namespace {

ExitCode exit_of_status(const RunStatus& status) {
  if (status.state == RunState::failed) return ExitCode::run_failed;
  return status.state == RunState::cancelled ? ExitCode::interrupted : ExitCode::ok;
}

// Prints how the run is doing now, and says whether it goes on.
ExitCode print_status(const CommandLine& line, const Installation& installation, const std::string& run_dir,
                      bool& goes_on) {
  auto status = read_run_status(run_dir);
  if (!status.ok()) return fail(line, status.error());
  goes_on = status->state == RunState::running;
  const std::int64_t now_ms = SystemClock().wall_ms();
  if (line.json && !line.metrics) {
    if (const Status printed = print_status_document(run_dir, now_ms); !printed.ok())
      return fail(line, printed.error());
    return exit_of_status(*status);
  }
  if (const std::string purge = purge_note(run_dir, *status, now_ms); !purge.empty()) status->notes.push_back(purge);
  const auto goodput = read_goodput(run_dir, now_ms);
  if (!goodput.ok()) print(stderr, "where the time went: {}\n", goodput.error().message());
  if (line.metrics) {
    if (!goodput.ok()) return fail(line, goodput.error());
    print_text(stdout, metrics_text(*status, *goodput, now_ms));
  } else {
    print_text(stdout, status_text(*status, now_ms));
    print_text(stdout, scrontab_text(line, installation, *status));
    if (goodput.ok()) print_text(stdout, goodput_text(*goodput));
    print_text(stdout, left_servers_text(left_servers(*status), run_dir));
  }
  return exit_of_status(*status);
}

// True: a signal came.
bool wait_for_signal(const SignalWatch& watch, Clock& clock, double seconds) {
  const Deadline deadline(clock, static_cast<std::int64_t>(seconds * 1e3));
  while (watch.count() == 0 && !deadline.passed()) clock.sleep_ms(std::min<std::int64_t>(100, deadline.left_ms() + 1));
  return watch.count() > 0;
}

}  // namespace

ExitCode show_status(const CommandLine& line_given, const Installation& installation) {
  if (line_given.named_runs.size() > 1) return show_status_of_several(line_given, installation);
  CommandLine line = line_given;
  if (!line.named_runs.empty()) line.run = line.named_runs.front();
  auto run = asked_run(line, installation);
  if (!run.ok()) return fail(line, run.error());
  bool goes_on = false;
  if (!line.watch) return print_status(line, installation, *run, goes_on);
  SystemClock clock;
  const SignalWatch watch;
  const bool terminal = ::isatty(STDOUT_FILENO) == 1;
  while (true) {
    if (terminal) print_bytes(stdout, "\x1b[H\x1b[2J");
    const ExitCode exit = print_status(line, installation, *run, goes_on);
    std::fflush(stdout);
    if (!goes_on) return exit;
    if (wait_for_signal(watch, clock, line.every_s)) return ExitCode::interrupted;
    if (!terminal) print(stdout, "\n");
  }
}

ExitCode write_run_report(const CommandLine& line, const Installation& installation) {
  auto run = asked_run(line, installation);
  if (!run.ok()) return fail(line, run.error());
  const auto story = read_run_story(*run);
  if (!story.ok()) return fail(line, story.error());
  const std::int64_t now_ms = SystemClock().wall_ms();
  const auto folder = line.output.empty() ? output_beside_run(*run, file_name(*run) + "-report")
                                          : Result<std::string>(absolute_path(line.output));
  if (!folder.ok()) return fail(line, folder.error());
  const auto path = write_report(*story, *folder, now_ms);
  if (!path.ok()) return fail(line, path.error());
  if (line.json)
    print_text(stdout, to_json_pretty(report_value(*story, now_ms)));
  else
    print(stdout, "{}\n", *path);
  return ExitCode::ok;
}

}  // namespace longhaul
