// status, logs and report: the commands that only read a run. None of them writes below it, or drives it.
#include <algorithm>
#include <cstdio>
#include <map>

#include "base/clock.h"
#include "base/files.h"
#include "base/json.h"
#include "base/text.h"
#include "orchestrator/cli/asked_run.h"
#include "orchestrator/cli/commands.h"
#include "orchestrator/cli/load_workflow.h"
#include "orchestrator/cli/signals.h"
#include "orchestrator/render/goodput_text.h"
#include "orchestrator/render/metrics_text.h"
#include "orchestrator/render/report.h"
#include "orchestrator/render/status_text.h"

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

// Prints what is new in each file, under a heading whenever the file changes.
class LogPrinter {
 public:
  bool print_new(const std::vector<std::string>& paths, const std::string& below) {
    bool any = false;
    for (const std::string& path : paths) any = print_file(path, below) || any;
    return any;
  }

 private:
  bool print_file(const std::string& path, const std::string& below) {
    std::FILE* file = std::fopen(path.c_str(), "rb");
    if (!file) return false;
    bool any = false;
    long& offset = offsets_[path];
    if (std::fseek(file, offset, SEEK_SET) == 0) {
      char buffer[65536];
      std::size_t got = 0;
      while ((got = std::fread(buffer, 1, sizeof buffer, file)) > 0) {
        if (path != current_)
          std::printf("==> %s <==\n", starts_with(path, below) ? path.substr(below.size() + 1).c_str() : path.c_str());
        current_ = path;
        std::fwrite(buffer, 1, got, stdout);
        offset += static_cast<long>(got);
        any = true;
      }
    }
    std::fclose(file);
    return any;
  }
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

}  // namespace

ExitCode show_status(const CommandLine& line, const Installation& installation) {
  auto run = asked_run(line, installation);
  if (!run.ok()) return fail(line, run.error());
  const auto status = read_run_status(*run);
  if (!status.ok()) return fail(line, status.error());
  const std::int64_t now_ms = SystemClock().wall_ms();
  const auto goodput = read_goodput(*run, now_ms);
  if (!goodput.ok()) std::fprintf(stderr, "where the time went: %s\n", goodput.error().message().c_str());
  if (line.metrics) {
    if (!goodput.ok()) return fail(line, goodput.error());
    std::fputs(metrics_text(status->name, *goodput, now_ms).c_str(), stdout);
  } else if (line.json) {
    Value document = run_status_to_value(*status);
    if (goodput.ok()) document.set("goodput", goodput_value(*goodput));
    std::fputs(to_json_pretty(document).c_str(), stdout);
  } else {
    std::fputs(status_text(*status, now_ms).c_str(), stdout);
    if (goodput.ok()) std::fputs(goodput_text(*goodput).c_str(), stdout);
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
  LogPrinter printer;
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
    std::fputs(to_json_pretty(report_value(*story, now_ms)).c_str(), stdout);
  else
    std::printf("%s\n", path->c_str());
  return ExitCode::ok;
}

}  // namespace longhaul
