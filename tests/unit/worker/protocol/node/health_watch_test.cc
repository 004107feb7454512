// The eyes on one host: its lines are taken, and a program that is silent or ends keeps nobody waiting.
#include "worker/protocol/node/health_watch.h"

#include <doctest/doctest.h>

#include "base/process/process.h"
#include "base/text/text.h"
#include "tests/support/sanitized.h"

namespace longhaul {
namespace {

struct WatchRig {
  explicit WatchRig(const std::string& script, std::int64_t silent_max_ms = 60'000)
      : log("test", ""), watch({{"sh", "-c", script}, silent_max_ms}, clock, log) {}
  template <class Condition>
  void until(Condition&& condition) {
    for (const Deadline deadline(clock, 10'000); !condition(); clock.sleep_ms(2)) {
      REQUIRE(!deadline.passed());
      watch.look();
    }
  }
  SystemClock clock;
  Logger log;
  HealthWatch watch;
};

const std::string one_look =
    R"(echo '{"look":true,"figures":{"gflops":3.5,"gb_per_s":9},"findings":[{"check":"disk","class":"disk_low",)"
    R"("device":"/runs","what":"1 % is free"}]}'; )";

}  // namespace

TEST_CASE("lines of the program become looks, notes with numbers, and figures; nonsense is passed over") {
  WatchRig rig(one_look + "echo nonsense; sleep 0.05; echo '{\"look\":true,\"findings\":[]}'; exec sleep 60");
  rig.until([&] { return rig.watch.report().looks == 2; });
  const HealthReport& report = rig.watch.report();
  REQUIRE(report.notes.size() == 1);
  CHECK(report.notes[0].serial == 1);
  CHECK(report.notes[0].finding.fault == FaultClass::disk_low);
  CHECK(report.figures.gflops == 3.5);
  CHECK(report.since > 0);
  rig.watch.add(health_finding("clock", FaultClass::clock_skew, "", "3 s ahead"));
  CHECK(report.notes.back().serial == 2);
}

TEST_CASE("a report keeps the newest notes only, and its numbers go on") {
  WatchRig rig(
      "for i in $(seq 50); do echo '{\"findings\":[{\"check\":\"gpu\",\"class\":\"gpu_event\"}]}'; done; "
      "echo '{\"look\":true}'; exec sleep 60");
  rig.until([&] { return rig.watch.report().looks == 1; });
  CHECK(rig.watch.report().notes.size() == 32);
  CHECK(rig.watch.report().notes.back().serial == 50);
}

TEST_CASE("the program hears which processes are the job's, at its start and whenever they change") {
  // What it reads becomes the text of a finding; empty lines part what may have been cut off.
  WatchRig rig(
      "while read line; do test -z \"$line\" || echo "
      "'{\"findings\":[{\"check\":\"gpu\",\"class\":\"gpu_event\",\"what\":\"'\"$line\"'\"}]}'; "
      "done");
  rig.watch.set_job_pids({7});
  rig.until([&] { return rig.watch.report().notes.size() == 1; });
  CHECK(rig.watch.report().notes[0].finding.what == "pids 7");
  rig.watch.set_job_pids({7});
  rig.watch.set_job_pids({7, 9});
  rig.until([&] { return rig.watch.report().notes.size() == 2; });
  CHECK(rig.watch.report().notes[1].finding.what == "pids 7 9");
}

TEST_CASE("a program that does not read what it is sent keeps nobody waiting") {
  WatchRig rig("exec sleep 60");
  rig.watch.look();
  std::set<int> many;
  for (int pid = 1'000'000; pid < 1'010'000; ++pid) many.insert(pid);
  for (int i = 0; i < (testing::sanitized ? 20 : 200); ++i) {
    many.insert(i + 1);
    rig.watch.set_job_pids(many);  // 80 kB each: more than a socket holds
    rig.watch.look();
  }
  CHECK(rig.watch.report().notes.empty());
}

TEST_CASE("a program that says nothing is reported once and ended; looking never waits for it") {
  WatchRig rig("exec sleep 60", 100);
  rig.until([&] { return !rig.watch.report().notes.empty(); });
  CHECK(rig.watch.report().notes[0].finding.fault == FaultClass::health_silent);
  for (int i = 0; i < 50; ++i) rig.clock.sleep_ms(4), rig.watch.look();
  CHECK(rig.watch.report().notes.size() == 1);
  CHECK(rig.watch.report().looks == 0);
}

TEST_CASE("the program goes with its owner, and without one nothing is started") {
  pid_t pid = -1;
  {
    WatchRig rig(
        "echo '{\"look\":true,\"findings\":[{\"check\":\"gpu\",\"class\":\"gpu_event\",\"what\":\"'$$'\"}]}'; "
        "exec sleep 60");
    rig.until([&] { return rig.watch.report().looks == 1; });
    pid = std::atoi(rig.watch.report().notes[0].finding.what.c_str());
    CHECK(identify_process(pid).ok());
  }
  SystemClock clock;
  for (const Deadline deadline(clock, 5'000); identify_process(pid).ok() && !deadline.passed();) clock.sleep_ms(2);
  CHECK(!identify_process(pid).ok());
  Attempt attempt;
  attempt.resiliency.health = "off";
  CHECK(health_watch_options(attempt, Value(), "/w").program.empty());
}

TEST_CASE("the settings of a stage say how its nodes are looked at") {
  Attempt attempt;
  attempt.stage_dir = "/runs/s";
  ResiliencySettings& settings = attempt.resiliency;
  const auto plain = health_watch_options(attempt, Value(), "/w");
  CHECK(join(plain.program, " ") ==
        "/w health --watch 30.000 --folder /runs/s --clean /dev/shm --training /runs/s/state --job-pids");
  Value checkpoint = Value::make_table(), task = Value::make_table();
  checkpoint.set("local_dir", "/local/copies");
  checkpoint.set("local_every_steps", 0);
  task.set("checkpoint", checkpoint);
  CHECK(health_watch_options(attempt, task, "/w").program == plain.program);
  checkpoint.set("local_every_steps", 50);
  task.set("checkpoint", checkpoint);
  const auto copies = health_watch_options(attempt, task, "/w");
  CHECK(join(copies.program, " ") ==
        "/w health --watch 30.000 --folder /runs/s --folder /local/copies --clean /dev/shm --clean /local/copies "
        "--training /runs/s/state --job-pids");
  CHECK(copies.silent_max_ms > plain.silent_max_ms);
  settings.preflight_floor = 0.7;
  settings.health_command = "/site/check --fast";
  settings.health_command_deadline = Seconds{20};
  attempt.gpus_per_node = 4;
  const auto more = health_watch_options(attempt, Value(), "/w");
  CHECK(join(more.program, "|") ==
        "/w|health|--watch|30.000|--folder|/runs/s|--clean|/dev/shm|--training|/runs/s/state|--job-pids|--gpus|4|"
        "--measure|--check|/site/check --fast|--check-deadline|20");
  CHECK(more.silent_max_ms == plain.silent_max_ms + 20'000);
}

}  // namespace longhaul
