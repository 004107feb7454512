// status, logs and report: the commands that only read a run. None of them writes below it, or drives it.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <string_view>

#include "base/files/files.h"
#include "base/files/owned_files.h"
#include "base/system/clock.h"
#include "base/text/print.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "orchestrator/cli/session/asked_run.h"
#include "orchestrator/cli/session/commands.h"
#include "orchestrator/cli/session/load_workflow.h"
#include "orchestrator/cli/session/signals.h"
#include "orchestrator/controller/drivers.h"
#include "orchestrator/render/report/report.h"
#include "orchestrator/render/run/goodput_text.h"
#include "orchestrator/render/run/metrics_text.h"
#include "orchestrator/render/run/status_text.h"
#include "orchestrator/runs/purge.h"

namespace longhaul {
namespace {

constexpr std::int64_t follow_interval_ms = 300;

// Logs of one attempt: the lead's first, then those of the newest start of the ranks.
std::vector<std::string> log_paths(const std::string& attempt_dir) {
  std::vector<std::string> paths;
  const auto add = [&](const std::string& folder) {
    const auto names = list_directory(folder);
    if (!names.ok()) return;
    for (const std::string& name : *names)
      if (ends_with(name, ".log")) paths.push_back(join_path(folder, name));
  };
  add(attempt_dir);
  std::string newest;
  int newest_number = -1;
  if (const auto launches = list_directory(join_path(attempt_dir, "launches")); launches.ok())
    for (const std::string& name : *launches)
      if (!name.empty() && name.size() < 7 && name.find_first_not_of("0123456789") == std::string::npos &&
          std::stoi(name) > newest_number) {
        newest_number = std::stoi(name);
        newest = name;
      }
  if (newest.empty()) return paths;
  const std::string launch = join_path(attempt_dir, "launches/" + newest);
  add(launch);
  if (const auto steps = list_directory(join_path(launch, "steps")); steps.ok())  // of several programs
    for (const std::string& step : *steps) add(join_path(launch, "steps/" + step));
  return paths;
}

// The bytes of `text` without a character that its end cuts; all of them when there is nothing else.
std::size_t whole_characters(std::string_view text) {
  std::size_t end = text.size();
  for (int back = 0; back < 3 && end > 0 && (static_cast<unsigned char>(text[end - 1]) & 0xc0) == 0x80; ++back) --end;
  if (end == 0) return text.size();
  const auto lead = static_cast<unsigned char>(text[end - 1]);
  const std::size_t length = lead < 0xc0 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  return end - 1 + length <= text.size() || end == 1 ? text.size() : end - 1;
}

// Prints what is new in each file, under a heading whenever the file changes. Not `raw`: control characters are made
// visible, for a terminal would obey them.
class LogPrinter {
 public:
  explicit LogPrinter(bool raw) : raw_(raw) {}
  bool print_new(const std::vector<std::string>& paths, const std::string& below) {
    bool any = false;
    for (const std::string& path : paths) any = print_file(path, below) || any;
    return any;
  }

 private:
  bool print_file(const std::string& path, const std::string& below) {
    auto opened = open_to_read(path);
    if (!opened.ok()) return false;
    std::FILE* file = ::fdopen(opened->get(), "rb");
    if (!file) return false;
    (void)opened->release();  // fclose closes it
    bool any = false;
    long& offset = offsets_[path];
    char buffer[65536];
    while (std::fseek(file, offset, SEEK_SET) == 0) {
      std::string_view bytes(buffer, std::fread(buffer, 1, sizeof buffer, file));
      if (bytes.empty()) break;
      if (path != current_)
        print(stdout, "==> {} <==\n", starts_with(path, below) ? path.substr(below.size() + 1) : path);
      current_ = path;
      if (!raw_) bytes = bytes.substr(0, whole_characters(bytes));
      if (raw_)
        print_bytes(stdout, bytes);
      else
        print_text(stdout, bytes);
      offset += static_cast<long>(bytes.size());
      any = true;
    }
    std::fclose(file);
    return any;
  }
  bool raw_;
  std::map<std::string, long> offsets_;
  std::string current_;
};

Result<StageStatus> find_stage(const RunStatus& status, const std::string& name) {
  if (const StageStatus* stage = status.find(name)) return *stage;
  std::vector<std::string> names, below;
  for (const StageStatus& stage : status.stages) {
    names.push_back(stage.id);
    if (starts_with(stage.id, name + "/")) below.push_back(stage.id);
  }
  if (!below.empty())
    return make_error(ErrorCode::not_found, "stage '" + name + "' has variants", "name one: " + join(below, " "));
  const std::string nearest = nearest_word(name, names);
  return make_error(ErrorCode::not_found, "the run has no stage '" + name + "'",
                    nearest.empty() ? "its stages: " + join(names, ", ") : "did you mean '" + nearest + "'?");
}

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

ExitCode show_status(const CommandLine& line_given, const Installation& installation) {
  if (line_given.named_runs.size() > 1) return show_status_of_several(line_given, installation);
  CommandLine line = line_given;
  if (!line.named_runs.empty()) line.run = line.named_runs.front();
  auto run = asked_run(line, installation);
  if (!run.ok()) return fail(line, run.error());
  auto status = read_run_status(*run);
  if (!status.ok()) return fail(line, status.error());
  const std::int64_t now_ms = SystemClock().wall_ms();
  if (const std::string purge = purge_note(*run, *status, now_ms); !purge.empty()) status->notes.push_back(purge);
  const auto goodput = read_goodput(*run, now_ms);
  if (!goodput.ok()) print(stderr, "where the time went: {}\n", goodput.error().message());
  if (line.metrics) {
    if (!goodput.ok()) return fail(line, goodput.error());
    print_text(stdout, metrics_text(status->name, *goodput, now_ms));
  } else if (line.json) {
    Value document = run_status_to_value(*status);
    if (goodput.ok()) document.set("goodput", goodput_value(*goodput));
    print_text(stdout, to_json_pretty(document));
  } else {
    print_text(stdout, status_text(*status, now_ms));
    print_text(stdout, scrontab_text(line, installation, *status));
    if (goodput.ok()) print_text(stdout, goodput_text(*goodput));
  }
  if (status->state == RunState::failed) return ExitCode::run_failed;
  return status->state == RunState::cancelled ? ExitCode::interrupted : ExitCode::ok;
}

ExitCode show_logs(const CommandLine& line, const Installation& installation) {
  auto run = asked_run(line, installation);
  if (!run.ok()) return fail(line, run.error());
  auto status = read_run_status(*run);
  if (!status.ok()) return fail(line, status.error());
  const auto stage = find_stage(*status, line.stage);
  if (!stage.ok()) return fail(line, stage.error());
  const std::string folder = join_path(*run, stage->folder.empty() ? "stages/" + stage->id : stage->folder);
  const auto attempt_folder = [&]() -> std::string {
    const auto numbers = attempt_numbers(folder);
    const int wanted = line.attempt > 0 ? line.attempt : numbers.empty() ? 0 : numbers.back();
    return std::find(numbers.begin(), numbers.end(), wanted) == numbers.end()
               ? ""
               : join_path(folder, format("attempts/{}", wanted));
  };
  if (attempt_folder().empty() && !(line.follow && !is_final(stage->state) && line.attempt == 0))
    return fail(line, make_error(ErrorCode::not_found,
                                 line.attempt > 0 ? format("stage {} has no attempt {}", stage->id, line.attempt)
                                                  : "stage " + stage->id + " has not been started",
                                 std::string("it is ") + to_string(stage->state)));
  SystemClock clock;
  LogPrinter printer(line.raw || ::isatty(STDOUT_FILENO) == 0);
  SignalWatch watch;
  std::int64_t quiet_since = clock.monotonic_ns();
  while (true) {
    const std::string attempt = attempt_folder();
    const bool any = !attempt.empty() && printer.print_new(log_paths(attempt), *run);
    std::fflush(stdout);
    if (!line.follow) return ExitCode::ok;
    if (any) quiet_since = clock.monotonic_ns();
    if (watch.count() > 0) return ExitCode::interrupted;
    if (!any) {
      status = read_run_status(*run);
      if (!status.ok()) return fail(line, status.error());
      const StageStatus* now = status->find(stage->id);
      if (!now || is_final(now->state) || status->state != RunState::running) return ExitCode::ok;
      if (static_cast<double>(clock.monotonic_ns() - quiet_since) / 1e9 > line.quiet_limit_s)
        return fail(line, make_error(ErrorCode::timeout, format("nothing was written for {:.0f} s", line.quiet_limit_s),
                                     "the stage is " + std::string(to_string(now->state)) +
                                         "; --quiet-limit sets how long to wait"));
    }
    clock.sleep_ms(follow_interval_ms);
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
