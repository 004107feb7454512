#include "worker/lead/injection/fault_injector.h"

#include <doctest/doctest.h>
#include <signal.h>

#include "base/files/files.h"
#include "base/process/process.h"
#include "base/text/text.h"
#include "contracts/records/checkpoint_format.h"
#include "tests/support/scratch.h"
#include "worker/protocol/ranks/process_watch.h"

namespace longhaul {
namespace {

// A launch of two ranks on this node, whose processes sleep.
struct InjectionRig {
  testing::Scratch scratch;
  ManualClock clock;
  EventWriter events{clock, scratch.file("events.jsonl"), 0};
  Logger log{"lead", "", LogLevel::error, scratch.file("log")};
  Launch launch;
  RankWatch ranks{clock};
  std::map<int, pid_t> started;
  std::vector<HeartbeatPage> pages;

  InjectionRig() {
    launch.launch = 1, launch.ranks = 2, launch.hosts = {"n1"}, launch.rank_host = {0, 0};
    launch.launch_dir = scratch.file("launch");
    launch.state_dir = scratch.file("state");
    launch.fault_plan = scratch.file("launch/faults.plan");
    REQUIRE(make_directories(launch.launch_dir).ok());
    REQUIRE(write_file_atomic(launch.fault_plan, "follow\n").ok());
    for (int rank = 0; rank < 2; ++rank) {
      SpawnSpec spec;
      spec.argv = {"sleep", "60"};
      const auto pid = spawn(spec);
      REQUIRE(pid.ok());
      started[rank] = *pid;
    }
    ranks.new_launch(launch, {{launch.launch_dir, 0, 2}});
  }
  ~InjectionRig() {
    for (const auto& [rank, pid] : started) ::kill(pid, SIGKILL);
    for (const auto& [rank, pid] : started)
      for (auto exit = poll_exit(pid); exit.ok() && !exit->has_value(); exit = poll_exit(pid))
        SystemClock().sleep_ms(5);
  }
  FaultInjector injector(const FaultSettings& settings) {
    FaultInjector made(settings, 2, scratch.file("stage"), clock, events, log);
    REQUIRE(made.begin().ok());
    return made;
  }
  void look(FaultInjector& injector) { injector.look({launch, ranks, nullptr, "", "n1", started}); }
  std::vector<Event> reported(const std::string& kind) {
    std::uint64_t offset = 0;
    std::vector<Event> found;
    const auto events_so_far = read_events(scratch.file("events.jsonl"), offset);
    REQUIRE(events_so_far.ok());
    for (const Event& event : *events_so_far)
      if (event.kind == kind) found.push_back(event);
    return found;
  }
  std::string ended(int rank) {
    SystemClock clock_of_day;
    for (const Deadline deadline(clock_of_day, 5'000); !deadline.passed(); clock_of_day.sleep_ms(5)) {
      const auto exit = poll_exit(started[rank]);
      if (exit.ok() && exit->has_value()) {
        started.erase(rank);
        return (*exit)->text();
      }
    }
    return "still running";
  }
};

FaultSettings at(std::vector<FaultRequest> faults) {
  FaultSettings settings;
  settings.allowed = true;
  settings.at = std::move(faults);
  return settings;
}

}  // namespace

TEST_CASE("fault injector: a signal hits the rank that was named, is reported, and comes once in the life of a stage") {
  InjectionRig rig;
  FaultRequest later{"SIGTERM", 0};
  later.after = {60};
  FaultInjector injector = rig.injector(at({{"SIGABRT", 0}, {"OS_ABORT", 1}, later}));
  rig.look(injector);
  CHECK(rig.ended(1) == "killed by signal 6 (Aborted)");
  CHECK(process_state(rig.started[0]) != ProcessState::ended);
  const auto injected = rig.reported("injected");
  REQUIRE(injected.size() == 1);
  CHECK(injected[0].rank == 1);
  CHECK(injected[0].fields.get_string("fault") == "OS_ABORT");
  CHECK(injected[0].fields.get_string("host") == "n1");
  REQUIRE(rig.reported("message").size() == 1);  // there is no fault SIGABRT
  CHECK(rig.reported("message")[0].fields.get_string("text").find("there is no such fault") != std::string::npos);

  // Another lead of the stage: what was done is done, and times count from the first one's beginning.
  rig.started[1] = rig.started[0];
  rig.clock.advance_ms(30'000);
  FaultInjector second = rig.injector(at({{"SIGABRT", 0}, {"OS_ABORT", 1}, later}));
  rig.look(second);
  CHECK(rig.reported("injected").size() == 1);
  rig.clock.advance_ms(30'000);
  rig.look(second);
  CHECK(rig.reported("injected").size() == 2);
  rig.started.erase(1);
  CHECK(rig.ended(0) == "killed by signal 15 (Terminated)");
}

TEST_CASE("fault injector: points of the engine go to the launch's plan; what needs agents says that there are none") {
  InjectionRig rig;
  FaultInjector injector = rig.injector(at({{"ASYNC_EXC", 1}, {"frozen_host", 0}, {"dead_standby", 0}}));
  const OrderOutcome taken = injector.take({"001", "fault", 0, fault_request_fields().to_value({"full_disk", 0})});
  CHECK(taken.done);
  CHECK(!injector.take({"002", "fault", 0, Value()}).done);
  rig.look(injector);
  CHECK(read_file(rig.launch.fault_plan).value() ==
        "follow\nengine_backward error rank=1\ncheckpoint_before_shard disk_full rank=0\n");
  CHECK(rig.reported("injected").size() == 2);
  CHECK(rig.reported("message").size() == 2);
}

TEST_CASE("fault injector: one byte of the rank's shard of the newest whole checkpoint is damaged") {
  InjectionRig rig;
  const std::string checkpoints = rig.scratch.file("state/checkpoints");
  FaultInjector injector = rig.injector(at({{"corrupted_shard", 1}}));
  rig.look(injector);
  CHECK(rig.reported("injected").empty());  // none is there: later
  for (const int step : {10, 20, 30}) {
    const std::string folder = join_path(checkpoints, checkpoint_folder_name(step));
    REQUIRE(make_directories(folder).ok());
    for (const char* shard : {"a.safetensors", "b.safetensors"})
      REQUIRE(write_file_atomic(join_path(folder, shard), std::string(800, 'x')).ok());
    if (step < 30) REQUIRE(write_file_atomic(join_path(folder, checkpoint_manifest_name), "{}").ok());
  }
  rig.look(injector);
  CHECK(rig.reported("injected").size() == 1);
  const std::string whole(800, 'x');
  for (const int step : {10, 20, 30})
    for (const char* shard : {"a.safetensors", "b.safetensors"}) {
      const std::string now = read_file(join_path(join_path(checkpoints, checkpoint_folder_name(step)), shard)).value();
      int changed = 0;
      for (std::size_t i = 0; i < now.size(); ++i) changed += now[i] != whole[i] ? 1 : 0;
      CAPTURE(step);
      CAPTURE(shard);
      CHECK(now.size() == 800);
      CHECK(changed == (step == 20 && shard[0] == 'b' ? 1 : 0));
    }
}

TEST_CASE("fault injector: a slow rank is stopped and let go in turn, and runs in the end") {
  InjectionRig rig;
  FaultRequest slow{"slow_rank", 0};
  slow.lasts = {1};
  FaultInjector injector = rig.injector(at({slow}));
  SystemClock real;
  int stopped = 0, running = 0;
  for (int look = 0; look < 40; ++look) {
    rig.look(injector);
    real.sleep_ms(25);
    (process_state(rig.started[0]) == ProcessState::stopped ? stopped : running) += 1;
    rig.clock.advance_ms(50);
  }
  CHECK(stopped >= 8);  // of the 20 looks in a second
  CHECK(stopped <= 12);
  CHECK(process_state(rig.started[0]) == ProcessState::running);
}

TEST_CASE("fault injector: a second slow rank leaves the first one not stopped for good") {
  InjectionRig rig;
  FaultRequest first{"slow_rank", 0}, second{"slow_rank", 1};
  first.lasts = second.lasts = {1};
  second.after = {0.55};  // while the first one is stopped
  FaultInjector injector = rig.injector(at({first, second}));
  SystemClock real;
  int together = 0;
  for (int look = 0; look < 60; ++look) {
    rig.look(injector);
    real.sleep_ms(5);
    if (look > 12 && process_state(rig.started[0]) == ProcessState::stopped) ++together;
    rig.clock.advance_ms(50);
  }
  CHECK(together >= 2);  // the first one is slow beside the second
  for (const int rank : {0, 1}) CHECK(process_state(rig.started[rank]) == ProcessState::running);
}

TEST_CASE(
    "fault injector: an XID is said by the simulated GPU of the rank; real GPUs cannot be scripted, and that is said") {
  InjectionRig rig;
  FaultRequest xid{"xid", 1}, storm{"ecc_storm", 0};
  xid.xid = 79;
  HealthReport health;
  const auto look = [&](FaultInjector& injector) {
    injector.look({rig.launch, rig.ranks, nullptr, "", "n1", rig.started, &health});
  };
  FaultInjector injector = rig.injector(at({xid}));
  rig.look(injector);  // nobody looks at the node
  look(injector);      // nobody has looked yet
  CHECK(rig.reported("injected").empty());
  CHECK(rig.reported("message").empty());
  health.looks = 1, health.gpu_script = rig.scratch.file("gpus");
  REQUIRE(write_file_atomic(health.gpu_script, "at 0 devices 2\n").ok());
  look(injector);
  REQUIRE(rig.reported("injected").size() == 1);
  CHECK(rig.reported("injected")[0].fields.get_string("device") == "GPU 1");
  CHECK(rig.reported("injected")[0].fields.get_integer("xid") == 79);
  const std::string script = read_file(health.gpu_script).value();
  CHECK_MESSAGE(script.find("at 0 devices 2\non ") == 0, script);
  CHECK_MESSAGE(script.find(" device 1 xid 79\n") != std::string::npos, script);

  health.gpu_script.clear();  // those of the driver
  REQUIRE(injector.take({"003", "fault", 0, fault_request_fields().to_value(storm)}).done);
  look(injector);
  CHECK(rig.reported("injected").size() == 1);
  REQUIRE(rig.reported("message").size() == 1);
  const std::string said = rig.reported("message")[0].fields.get_string("text");
  CHECK_MESSAGE(said.find("not injected: ecc_storm of rank 0: n1 has no simulated GPUs") == 0, said);
}

TEST_CASE("fault injector: what only the site can do is done by its command, with the node and the time") {
  InjectionRig rig;
  REQUIRE(write_file_atomic(rig.scratch.file("cut"), "echo cutting; echo \"$@\" >> \"$1.cut\"; exit ${2%%.*}").ok());
  FaultRequest cut{"cut_network", 1}, again{"cut_network", 0}, down{"slurmctld_down", 0};
  cut.lasts = {0.5}, again.lasts = {4};
  FaultSettings settings = at({cut, again, down});
  settings.commands.cut_network = "sh " + rig.scratch.file("cut") + " " + rig.scratch.path() + "/{host} {seconds}";
  FaultInjector injector = rig.injector(settings);
  rig.look(injector);
  CHECK(rig.reported("injected").size() == 2);
  REQUIRE(rig.reported("message").size() == 1);
  CHECK(rig.reported("message")[0].fields.get_string("text").find(
            "not injected: slurmctld_down of rank 0: the site has no "
            "command for it; [faults] slurmctld_down") == 0);
  SystemClock real;
  for (const Deadline deadline(real, 5'000); rig.reported("message").size() < 2 && !deadline.passed(); real.sleep_ms(5))
    rig.look(injector);
  REQUIRE(rig.reported("message").size() == 2);  // the exit code of the other one is 0
  CHECK(rig.reported("message")[1].fields.get_string("text").find(
            "not injected: cut_network of rank 0: sh: exit code 4: cutting") == 0);
  // Both run beside each other, and the one that ends well reports nothing.
  const auto has_run = [&](const char* seconds) {
    const auto done = read_file(rig.scratch.file("n1.cut"));
    return done.ok() && done->find(rig.scratch.file("n1") + seconds) != std::string::npos;
  };
  for (const Deadline deadline(real, 5'000); !has_run(" 0.5\n") && !deadline.passed(); real.sleep_ms(5)) {
  }
  CHECK(has_run(" 0.5\n"));
  CHECK(has_run(" 4\n"));
}

TEST_CASE("fault injector: a message to a Python program that does not listen is reported as not injected") {
  InjectionRig rig;
  FaultInjector injector = rig.injector(at({{"LOCK_GIL", 1}}));
  BeatSockets sockets(rig.log);
  injector.look({rig.launch, rig.ranks, nullptr, "", "n1", rig.started, nullptr, &sockets});
  REQUIRE(rig.reported("message").size() == 1);
  CHECK(rig.reported("message")[0].fields.get_string("text").find("no program of rank 1 is connected") !=
        std::string::npos);
}

}  // namespace longhaul
