// A run of six weeks in virtual time, and what its reading commands take then. The controller's own rounds are made,
// each as a process of its own would make it: one every five minutes, as a line of scrontab does, and one at every end
// of a job. Jobs are real leads of a program that waits; each ends after a day and leaves further saved state. What a
// training of 20 s a step says in that day is written into its events. Exit code 1 where a bar is missed.
//
//   six_weeks --bin build/release/bin --folder SCRATCH [--days 42] [--tick-minutes 5] [--keep]
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/files/files.h"
#include "base/process/process.h"
#include "base/text/text.h"
#include "contracts/events/event.h"
#include "contracts/settings/stages/command.h"
#include "orchestrator/controller/tick.h"
#include "orchestrator/runs/run.h"

namespace longhaul {
namespace {

constexpr std::int64_t minute_ms = 60'000, day_ms = 24 * 60 * minute_ms, step_ms = 20'000;
constexpr int steps_per_checkpoint = 90, steps_per_fault = 480;  // every half hour, nine a day
constexpr double command_bar_s = 1, log_bar_mb = 20;

// The machine's clock, and the time that was left out.
class AheadClock final : public Clock {
 public:
  std::int64_t wall_ms() const override { return real_.wall_ms() + ahead_ms_; }
  std::int64_t monotonic_ns() const override { return real_.monotonic_ns() + ahead_ms_ * 1'000'000; }
  void sleep_ms(std::int64_t ms) override { real_.sleep_ms(ms); }
  void leave_out(std::int64_t ms) { ahead_ms_ += ms; }

 private:
  SystemClock real_;
  std::int64_t ahead_ms_ = 0;
};

// What the training says in a day, each event at its time.
class Day {
 public:
  Day(const std::string& folder, AheadClock& clock)
      : clock_(clock), folder_(folder), events_(clock, folder + "/events.jsonl", 0) {}

  void steps_until_now(std::int64_t& step, std::int64_t& said_ms) {
    for (; said_ms + step_ms <= clock_.wall_ms(); said_ms += step_ms) say(++step);
  }

 private:
  void say(std::int64_t step) {
    Value metric = Value::make_table();
    metric.set("step", static_cast<long long>(step));
    metric.set("loss", 2.0 + 1e4 / static_cast<double>(step + 1000));
    metric.set("lr", 3e-4);
    metric.set("grad_norm", 0.4712345678901234);
    metric.set("consumed_samples", static_cast<long long>(2048 * step));
    metric.set("tokens_per_s", 838'860.8123456);
    metric.set("gflops", 6'543'210.123456);
    events_.write("metric", std::move(metric));
    Value progress = Value::make_table();
    progress.set("done", static_cast<double>(step));
    progress.set("total", 181'440.0);
    progress.set("unit", "steps");
    progress.set("rate", 0.05);
    progress.set("eta_s", 20.0 * static_cast<double>(181'440 - step));
    events_.write("progress", std::move(progress));
    if (step % steps_per_checkpoint == 0) {
      Value saved = Value::make_table();
      saved.set("step", static_cast<long long>(step));
      saved.set("path", folder_ + "/step");
      saved.set("bytes", 64'000'000'000'000LL);
      saved.set("stall_s", 0.4);
      saved.set("write_s", 90.0);
      events_.write("checkpoint", std::move(saved));
    }
    if (step % steps_per_fault == 0) {
      Value fault = Value::make_table();
      for (const char* key : {"class", "tier", "cause", "host"}) fault.set(key, std::string("crash"));
      fault.set("launch", 1);
      events_.write("fault", fault);
    }
  }

  AheadClock& clock_;
  std::string folder_;
  EventWriter events_;
};

struct SixWeeks {
  AheadClock clock;
  Logger log{"six-weeks", "", LogLevel::error};
  std::string root, run;
  TickOptions options;
  std::int64_t step = 0, ticks = 0, tick_ms = 5 * minute_ms;

  Status begin(const std::string& folder, const std::string& programs) {
    root = folder;
    options.cpu_slots = 1;
    PlannedStage stage;
    stage.stage = "train";
    stage.kind = "command";
    stage.common.threads = 1;
    stage.common.retries = 100;
    stage.common.job.resumable = "yes";
    CommandSettings settings;
    settings.script = format(
        "while [ ! -e {0}/end ]; do sleep 0.05; done; rm {0}/end; date +%s.%N > $LONGHAUL_STATE/saved\n"
        "if [ -e {0}/done ]; then touch $LONGHAUL_OUT/model; else exit 1; fi",
        root);
    stage.settings = command_fields().to_value(settings);
    RunPlan plan;
    plan.workflow = "weeks";
    plan.stages.push_back(std::move(stage));
    RunOrigin origin;
    origin.artifact_root = root + "/artifacts";
    origin.programs_dir = programs;
    origin.software = "longhaul";
    LH_TRY(run, create_run(root + "/runs", plan, origin, clock));
    return {};
  }

  // As a process of its own does it.
  Result<TickOutcome> round() {
    ++ticks;
    std::int64_t epoch = 0;
    return tick(run, epoch, options, clock, log);
  }

  std::string attempt_folder(int attempt) const { return format("{}/stages/train/attempts/{}", run, attempt); }

  // Rounds, as at the end of a job, until there is what is waited for.
  template <class Condition>
  Status rounds_until(const char* what, Condition&& there) {
    SystemClock real;
    const Deadline deadline(real, 60'000);
    while (!there()) {
      LH_CHECK(round());
      if (deadline.passed()) return make_error(ErrorCode::io, format("not within a minute: {}", what));
      real.sleep_ms(20);
    }
    return {};
  }

  Status day(int number, bool last) {
    const std::string folder = attempt_folder(number);
    LH_CHECK(rounds_until("a job that runs", [&] { return file_exists(folder + "/events.jsonl"); }));
    const std::int64_t end_ms = clock.wall_ms() + day_ms;
    std::int64_t said_ms = clock.wall_ms();
    {
      Day events(folder, clock);
      while (clock.wall_ms() < end_ms) {
        clock.leave_out(tick_ms);
        events.steps_until_now(step, said_ms);
        LH_CHECK(round());
      }
    }
    if (last) LH_CHECK(write_file_renamed(root + "/done", ""));
    LH_CHECK(write_file_renamed(root + "/end", ""));
    const std::string next = attempt_folder(number + 1) + "/events.jsonl";
    return rounds_until("the end of a day's job",
                        [&] { return last ? file_exists(run + "/stages/train/out") : file_exists(next); });
  }
};

double bytes_below(const std::string& folder) {
  double bytes = 0;
  const auto files = list_tree(folder);
  if (!files.ok()) return 0;
  for (const std::string& file : *files)
    if (const auto size = file_size(join_path(folder, file)); size.ok()) bytes += static_cast<double>(*size);
  return bytes;
}

// Seconds of a command, and the bytes that it says; -1: it failed.
double seconds_of(const std::vector<std::string>& argv, const std::string& output) {
  SystemClock clock;
  const std::int64_t begun = clock.monotonic_ns();
  SpawnSpec spec;
  spec.argv = argv;
  spec.stdout_path = spec.stderr_path = output;
  spec.working_directory = parent_path(output);  // where the report is made
  const auto child = spawn(spec);
  if (!child.ok()) return -1;
  int status = 0;
  ::waitpid(*child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) <= 5 ? static_cast<double>(clock.monotonic_ns() - begun) * 1e-9 : -1;
}

bool command_row(const std::string& name, double seconds) {
  const bool met = seconds >= 0 && seconds <= command_bar_s;
  std::printf("%-28s %8.2f s   bar %g s   %s\n", name.c_str(), seconds, command_bar_s, met ? "met" : "MISSED");
  return met;
}

bool read_it(const SixWeeks& weeks, const std::string& longhaul) {
  const std::string output = weeks.root + "/said";
  bool met = true;
  const std::vector<std::vector<std::string>> commands = {{"status"}, {"status", "--json"},     {"logs"}, {"report"},
                                                          {"tick"},   {"tick", "--until-quiet"}};
  for (std::vector<std::string> arguments : commands) {
    std::vector<std::string> argv = {longhaul, arguments.front(), weeks.run};
    argv.insert(argv.end(), arguments.begin() + 1, arguments.end());
    met &= command_row("longhaul " + join(arguments, " "), seconds_of(argv, output));
  }
  const auto logs = list_directory(weeks.run + "/log");
  const double log_mb = bytes_below(weeks.run + "/log") / 1e6;
  std::printf("%-28s %8.2f MB  bar %g MB   %s (%zu epochs)\n", "log of the controllers", log_mb, log_bar_mb,
              log_mb <= log_bar_mb ? "met" : "MISSED", logs.ok() ? logs->size() : 0);
  std::printf("%-28s %8.2f MB\n", "events of all attempts", bytes_below(weeks.run + "/stages/train/attempts") / 1e6);
  return met && log_mb <= log_bar_mb;
}

int run(const std::string& bin, const std::string& folder, int days, int tick_minutes, bool keep) {
  SixWeeks weeks;
  weeks.tick_ms = tick_minutes * minute_ms;
  if (const Status begun = weeks.begin(folder, bin); !begun.ok()) {
    std::fprintf(stderr, "%s\n", begun.error().message().c_str());
    return 2;
  }
  SystemClock clock;
  for (int day = 1; day <= days; ++day) {
    const std::int64_t begun = clock.monotonic_ns(), ticks = weeks.ticks;
    if (const Status done = weeks.day(day, day == days); !done.ok()) {
      std::fprintf(stderr, "day %d of %s: %s\n", day, weeks.run.c_str(), done.error().message().c_str());
      return 2;
    }
    if (day % 7 == 0 || day == days)
      std::printf("day %d: %.2f ms a tick, log %.2f MB\n", day,
                  static_cast<double>(clock.monotonic_ns() - begun) * 1e-6 / static_cast<double>(weeks.ticks - ticks),
                  bytes_below(weeks.run + "/log") / 1e6);
    std::fflush(stdout);
  }
  std::printf("%d days, %lld ticks, %lld steps\n", days, static_cast<long long>(weeks.ticks),
              static_cast<long long>(weeks.step));
  const bool met = read_it(weeks, bin + "/longhaul");
  if (!keep) (void)remove_tree(folder).ok();
  return met ? 0 : 1;
}

}  // namespace
}  // namespace longhaul

int main(int argc, char** argv) {
  std::string bin, folder;
  int days = 42, tick_minutes = 5;
  bool keep = false;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    if (option == "--keep") keep = true;
    if (i + 1 == argc) break;
    if (option == "--bin") bin = longhaul::absolute_path(argv[i + 1]);
    if (option == "--folder") folder = longhaul::absolute_path(argv[i + 1]);
    if (option == "--days") days = std::atoi(argv[i + 1]);
    if (option == "--tick-minutes") tick_minutes = std::atoi(argv[i + 1]);
  }
  if (bin.empty() || folder.empty() || days < 1 || tick_minutes < 1 || !longhaul::make_directories(folder).ok()) {
    std::fprintf(stderr, "six_weeks --bin FOLDER --folder SCRATCH [--days N] [--tick-minutes N] [--keep]\n");
    return 2;
  }
  return longhaul::run(bin, folder, days, tick_minutes, keep);
}
