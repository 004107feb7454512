// logs: what the programs of a stage printed, and what its events say. Only reads.
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
#include "orchestrator/cli/options/json_documents.h"
#include "orchestrator/cli/session/asked_run.h"
#include "orchestrator/cli/session/commands.h"
#include "orchestrator/cli/session/load_workflow.h"
#include "orchestrator/cli/session/signals.h"
#include "orchestrator/render/logs/event_lines.h"
#include "orchestrator/render/logs/shown_stage.h"
#include "orchestrator/render/run/run_story.h"
#include "orchestrator/render/run/thinned_events.h"

namespace longhaul {
namespace {

constexpr std::int64_t follow_interval_ms = 300;
constexpr std::size_t past_metrics_max = 200;     // of a training's past: more nobody reads
constexpr std::int64_t followed_apart_ms = 1000;  // of what comes while it is followed
constexpr std::uint64_t newest_bytes = 64 << 10;  // hold the newest progress

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
  void heading(const std::string& path, const std::string& below) {
    if (path != current_)
      print(stdout, "==> {} <==\n", starts_with(path, below) ? path.substr(below.size() + 1) : path);
    current_ = path;
  }
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
      heading(path, below);
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

std::uint64_t events_bytes(const std::string& path) {
  const auto size = file_size(path);
  return size.ok() ? *size : 0;
}

// The events of one attempt after the other, the past thinned.
class EventPrinter {
 public:
  // Whether there was anything new, printed or not.
  bool print_new(const std::string& attempt, const std::string& below, LogPrinter& printer) {
    const std::string path = join_path(attempt, "events.jsonl");
    if (path != path_) {
      end(below, printer);
      path_ = path;
      lines_ = EventLines(0, planned_steps(path));
      offset_ = events_bytes(path);
      if (offset_ == 0) return false;
      show(lines_.lines(read_thinned_events(path, past_metrics_max)), below, printer);
      lines_.set_apart(followed_apart_ms);
      return true;
    }
    const auto events = read_events(path, offset_);
    if (!events.ok() || events->empty()) return false;
    show(lines_.lines(*events), below, printer);
    return true;
  }
  void end(const std::string& below, LogPrinter& printer) { show(lines_.rest(), below, printer); }

 private:
  void show(const std::string& text, const std::string& below, LogPrinter& printer) {
    if (text.empty()) return;
    printer.heading(path_, below);
    print_text(stdout, text);
  }
  static double planned_steps(const std::string& path) {
    const std::uint64_t size = events_bytes(path);
    std::uint64_t offset = size > newest_bytes ? size - newest_bytes : 0;
    const auto events = read_events(path, offset);
    double total = 0;
    if (!events.ok()) return total;
    for (const Event& event : *events)
      if (event.kind == "progress" && event.fields.get_string("unit") == "steps")
        total = event.fields.get_number("total");
    return total;
  }
  std::string path_;
  std::uint64_t offset_ = 0;
  EventLines lines_{0};
};

// Where a stage's attempts lie, and below which run that is: of a cached stage those of the run that made its artifact.
struct LogsPlace {
  std::string run, stage_folder;
};

Result<LogsPlace> place_of(const std::string& run, const StageStatus& stage) {
  if (stage.state != StageState::cached)
    return LogsPlace{run, join_path(run, stage.folder.empty() ? "stages/" + stage.id : stage.folder)};
  const std::string folder = parent_path(stage.artifact);
  const auto below = folder.rfind("/stages/");
  if (below == std::string::npos || attempt_numbers(folder).empty())
    return make_error(ErrorCode::not_found, "stage " + stage.id + " is cached, and what made it left no logs",
                      "its artifact is " + stage.artifact);
  print(stderr, "{} is cached: this was printed when {} made it\n", stage.id, file_name(folder.substr(0, below)));
  return LogsPlace{folder.substr(0, below), folder};
}

// The attempt that is wanted, 0: the newest; "" while there is none.
std::string attempt_folder(const std::string& stage_folder, int asked) {
  const auto numbers = attempt_numbers(stage_folder);
  const int wanted = asked > 0 ? asked : numbers.empty() ? 0 : numbers.back();
  return std::ranges::find(numbers, wanted) == numbers.end() ? ""
                                                             : join_path(stage_folder, format("attempts/{}", wanted));
}

ExitCode print_logs(const CommandLine& line, const std::string& run, const StageStatus& stage, const LogsPlace& place) {
  SystemClock clock;
  LogPrinter printer(line.raw || ::isatty(STDOUT_FILENO) == 0);
  EventPrinter events;
  SignalWatch watch;
  std::int64_t quiet_since = clock.monotonic_ns();
  while (true) {
    const std::string attempt = attempt_folder(place.stage_folder, line.attempt);
    bool any = !attempt.empty() && printer.print_new(log_paths(attempt), place.run);
    any = (!attempt.empty() && events.print_new(attempt, place.run, printer)) || any;
    if (!line.follow || watch.count() > 0) events.end(place.run, printer);
    std::fflush(stdout);
    if (!line.follow) return ExitCode::ok;
    if (any) quiet_since = clock.monotonic_ns();
    if (watch.count() > 0) return ExitCode::interrupted;
    if (!any) {
      const auto status = read_run_status(run);
      if (!status.ok()) return fail(line, status.error());
      const StageStatus* now = status->find(stage.id);
      if (!now || is_final(now->state) || status->state != RunState::running) {
        events.end(place.run, printer);
        return ExitCode::ok;
      }
      // Whoever drives the run ends a stage that hangs.
      const double quiet_s = static_cast<double>(clock.monotonic_ns() - quiet_since) / 1e9;
      if (!status->driven && quiet_s > line.quiet_limit_s)
        return fail(
            line,
            make_error(ErrorCode::timeout,
                       format("nothing was written for {:.0f} s, and nobody drives the run", line.quiet_limit_s),
                       "the stage is " + std::string(to_string(now->state)) + "; --quiet-limit sets how long to wait"));
    }
    clock.sleep_ms(follow_interval_ms);
  }
}

// Where the logs lie, and the events of the attempt, those of a long training thinned as on the screen.
ExitCode print_logs_document(const CommandLine& line, const StageStatus& stage, const LogsPlace& place) {
  const std::string attempt = attempt_folder(place.stage_folder, line.attempt);
  Value document = document_of("longhaul logs", 1);
  document.set("run", place.run);
  document.set("stage", stage.id);
  document.set("attempt", attempt);
  const std::vector<std::string> paths = log_paths(attempt);
  document.set("logs", ValueArray(paths.begin(), paths.end()));
  Value& events = document.set("events", Value::make_array());
  for (const Event& event : read_thinned_events(join_path(attempt, "events.jsonl"), past_metrics_max))
    if (const auto line_of_event = parse_json(event_line(event), "event"); line_of_event.ok())
      events.push_back(*line_of_event);
  print_text(stdout, to_json_pretty(document));
  return ExitCode::ok;
}

}  // namespace

ExitCode show_logs(const CommandLine& line, const Installation& installation) {
  if (line.json && line.follow)
    return fail(line, make_error(ErrorCode::invalid_input, "--follow and --json together: one document has an end",
                                 "longhaul logs --json prints what there is; events.jsonl in its folder goes on"));
  auto run = asked_run(line, installation);
  if (!run.ok()) return fail(line, run.error());
  const auto status = read_run_status(*run);
  if (!status.ok()) return fail(line, status.error());
  const auto stage = asked_stage(*status, line.stage);
  if (!stage.ok()) return fail(line, stage.error());
  const auto place = place_of(*run, *stage);
  if (!place.ok()) return fail(line, place.error());
  const bool may_come = line.follow && !is_final(stage->state) && line.attempt == 0;
  if (attempt_folder(place->stage_folder, line.attempt).empty() && !may_come)
    return fail(line, make_error(ErrorCode::not_found,
                                 line.attempt > 0 ? format("stage {} has no attempt {}", stage->id, line.attempt)
                                                  : "stage " + stage->id + " has not been started",
                                 std::string("it is ") + to_string(stage->state)));
  return line.json ? print_logs_document(line, *stage, *place) : print_logs(line, *run, *stage, *place);
}

}  // namespace longhaul
