// The controller with the local scheduler and real leads: what a user sees of cached runs, cancel, resume, lost leads,
// two controllers at once. The kill test (tests/fault) covers death between any two steps.
#include "orchestrator/controller/controller.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <set>

#include "base/files/files.h"
#include "base/process/process.h"
#include "base/text/text.h"
#include "contracts/records/record.h"
#include "contracts/settings/stages/command.h"
#include "orchestrator/controller/tick.h"
#include "orchestrator/decide/in_flight.h"
#include "orchestrator/reuse/prepare.h"
#include "orchestrator/runs/run.h"
#include "orchestrator/state/status_from_ledger.h"

using namespace longhaul;

namespace {

struct ControllerRig {
  std::string root;
  RunPlan plan;
  SystemClock clock;
  Logger log{"test", "", LogLevel::error};
  std::atomic<bool> stop{false};

  ControllerRig() {
    static std::atomic<int> counter{0};
    root = format("/tmp/longhaul-control-{}-{}", ::getpid(), counter.fetch_add(1));
    REQUIRE(make_directories(root).ok());
    plan.workflow = "test";
  }
  ~ControllerRig() { (void)remove_tree(root).ok(); }

  void stage(const std::string& id, const std::string& script, std::vector<std::string> needs = {}, int retries = 0) {
    PlannedStage stage;
    stage.stage = id;
    stage.kind = "command";
    stage.common.threads = 1;
    stage.common.retries = retries;
    stage.needs = needs;
    for (const std::string& need : needs) {
      PlannedInput input;
      input.name = need;
      input.stages = {need};
      stage.inputs.push_back(std::move(input));
    }
    CommandSettings settings;
    settings.script = "echo " + id + " >> " + root + "/effects; " + script;
    stage.settings = command_fields().to_value(settings);
    plan.stages.push_back(std::move(stage));
  }
  std::string create() {
    RunOrigin origin;
    origin.artifact_root = root + "/artifacts";
    origin.programs_dir = parent_path(own_program_path());
    origin.software = "longhaul test";
    const auto run = create_run(root + "/runs", plan, origin, clock);
    REQUIRE_MESSAGE(run.ok(), (run.ok() ? "" : run.error().message()));
    return *run;
  }
  RunStatus drive_to_end(const std::string& run) {
    TickOptions options;
    options.cpu_slots = 2;
    const auto status = drive(run, options, clock, log, stop, nullptr, nullptr);
    REQUIRE_MESSAGE(status.ok(), (status.ok() ? "" : status.error().message()));
    return *status;
  }
  // Ticks of one controller until the condition holds.
  template <class Condition>
  void tick_until(const std::string& run, std::int64_t& epoch, Condition&& condition) {
    const Deadline deadline(clock, 20'000);
    TickOptions options;
    options.cpu_slots = 2;
    for (;;) {
      const auto outcome = tick(run, epoch, options, clock, log);
      REQUIRE_MESSAGE(outcome.ok(), (outcome.ok() ? "" : outcome.error().message()));
      if (condition(*read_run_status(run))) return;
      REQUIRE(!deadline.passed());
      clock.sleep_ms(3);
    }
  }
  int effects(const std::string& id) {
    const auto text = read_file(root + "/effects");
    int count = 0;
    if (text.ok())
      for (const std::string& line : split(*text, '\n')) count += line == id;
    return count;
  }
};

}  // namespace

TEST_CASE(
    "a controller that leaves is not waited for from other hosts, and one that was overtaken says it is at nothing") {
  ControllerRig rig;
  rig.stage("a", "sleep 60");
  const std::string run = rig.create();
  TickOptions options;
  options.cpu_slots = 2;
  const auto open = [&] { return Controller::open(run, 0, options, rig.clock, rig.log); };
  auto first = open();
  REQUIRE(first.ok());
  REQUIRE((*first)->round().ok());
  CHECK(file_exists(driver_pulse_path(run)));
  auto second = open();
  REQUIRE(second.ok());
  REQUIRE((*second)->round().ok());
  (*first)->leave();
  CHECK(file_exists(driver_pulse_path(run)));
  (*second)->leave();
  CHECK_FALSE(file_exists(driver_pulse_path(run)));
  // Whoever comes after them has to know only of the one that was overtaken, maybe between an intent and its act.
  CHECK(has_said_nothing_is_in_flight(run, (*first)->epoch()));
  CHECK_FALSE(has_said_nothing_is_in_flight(run, (*second)->epoch()));
  REQUIRE(request(run, "cancel", Value::make_table(), rig.clock).ok());
  CHECK(rig.drive_to_end(run).state == RunState::cancelled);
  CHECK_FALSE(file_exists(driver_pulse_path(run)));
}

TEST_CASE("a second run of the same workflow is cached; a stage that changed runs again, and what takes its output") {
  ControllerRig rig;
  rig.stage("a", "echo text > $LONGHAUL_OUT/a");
  rig.stage("b", "cat $LONGHAUL_INPUT_A/a > $LONGHAUL_OUT/b", {"a"});
  CHECK(rig.drive_to_end(rig.create()).state == RunState::succeeded);
  const RunStatus second = rig.drive_to_end(rig.create());
  CHECK(second.state == RunState::succeeded);
  for (const StageStatus& stage : second.stages) {
    CHECK(stage.state == StageState::cached);
    CHECK(stage.attempts == 0);
  }
  CHECK(rig.effects("a") == 1);
  CHECK(rig.effects("b") == 1);
  // Another script of `a` with the same output: `a` runs, `b` sees the same input and does not.
  RunPlan first = rig.plan;
  rig.plan.stages.clear();
  rig.stage("a", "sleep 0.01; echo text > $LONGHAUL_OUT/a");
  rig.plan.stages.push_back(first.stages[1]);
  const RunStatus third = rig.drive_to_end(rig.create());
  CHECK(third.find("a")->state == StageState::succeeded);
  CHECK(third.find("b")->state == StageState::cached);
  // The artifact that the index points to loses a file: it is stale, and made again.
  REQUIRE(remove_tree(third.find("b")->artifact + "/b").ok());
  const RunStatus fourth = rig.drive_to_end(rig.create());
  CHECK(fourth.find("a")->state == StageState::cached);
  CHECK(fourth.find("b")->state == StageState::succeeded);
  CHECK(rig.effects("b") == 2);
}

TEST_CASE("cancel ends a running stage and the run; resume goes on where it stopped") {
  ControllerRig rig;
  rig.stage("a", "true");
  rig.stage("b", "test -e " + rig.root + "/go || sleep 60", {"a"});
  rig.stage("c", "true", {"b"});
  const std::string run = rig.create();
  std::int64_t epoch = 0;
  rig.tick_until(run, epoch, [&](const RunStatus& s) {  // its script has begun, not its lead alone
    return s.find("b")->state == StageState::running && rig.effects("b") == 1;
  });
  CHECK(read_run_status(run)->driven);
  REQUIRE(request(run, "cancel", Value::make_table(), rig.clock).ok());
  rig.tick_until(run, epoch, [](const RunStatus& s) { return s.state != RunState::running; });
  const RunStatus cancelled = *read_run_status(run);
  CHECK(cancelled.state == RunState::cancelled);
  CHECK(cancelled.find("a")->state == StageState::succeeded);
  CHECK(cancelled.find("b")->state == StageState::cancelled);
  CHECK(cancelled.find("c")->state == StageState::cancelled);
  CHECK(list_directory(run + "/requests")->empty());
  CHECK(request(run, "explode", Value::make_table(), rig.clock).error().code == ErrorCode::invalid_input);

  REQUIRE(write_file_atomic(rig.root + "/go", "").ok());
  REQUIRE(request(run, "resume", Value::make_table(), rig.clock).ok());
  CHECK(rig.drive_to_end(run).state == RunState::succeeded);
  CHECK(rig.effects("a") == 1);
  CHECK(rig.effects("b") == 2);
  CHECK(rig.effects("c") == 1);
}

TEST_CASE("a killed lead is a lost attempt, and the next one completes the stage") {
  ControllerRig rig;
  rig.stage("a", "test -e " + rig.root + "/again && exit 0; touch " + rig.root + "/again; sleep 60", {}, 1);
  const std::string run = rig.create();
  std::int64_t epoch = 0;
  rig.tick_until(run, epoch, [&](const RunStatus&) { return file_exists(rig.root + "/again"); });
  const auto claim = read_claim(run + "/stages/a/attempts/1/claim.json");
  REQUIRE(claim.ok());
  ::kill(claim->process.pid, SIGKILL);
  const RunStatus status = rig.drive_to_end(run);
  CHECK(status.state == RunState::succeeded);
  CHECK(status.find("a")->attempts == 2);
  const auto lost = read_epochs(run);
  const bool said = std::any_of(lost->facts.begin(), lost->facts.end(),
                                [](const Fact& f) { return f.kind == FactKind::retry && f.text("fault") == "lost"; });
  CHECK(said);
}

TEST_CASE("a failed stage names its cause and stops the run; resume tries it again") {
  ControllerRig rig;
  rig.stage("a", "test -e " + rig.root + "/fixed || { echo 'corpus is empty'; exit 4; }");
  rig.stage("b", "true", {"a"});
  const std::string run = rig.create();
  const RunStatus failed = rig.drive_to_end(run);
  CHECK(failed.state == RunState::failed);
  CHECK(failed.find("a")->cause == "rank 0 ended: exit code 4: corpus is empty");
  CHECK(failed.find("b")->state == StageState::skipped);
  REQUIRE(write_file_atomic(rig.root + "/fixed", "").ok());
  REQUIRE(request(run, "resume", Value::make_table(), rig.clock).ok());
  CHECK(rig.drive_to_end(run).state == RunState::succeeded);
}

TEST_CASE("of two controllers the older one stops with a conflict before it acts, and nothing is doubled") {
  ControllerRig rig;
  rig.stage("a", "sleep 0.1");
  rig.stage("b", "true", {"a"});
  const std::string run = rig.create();
  TickOptions options;
  options.cpu_slots = 2;
  const auto older = Controller::open(run, 0, options, rig.clock, rig.log);
  REQUIRE(older.ok());
  REQUIRE((*older)->round().ok());
  const auto newer = Controller::open(run, 0, options, rig.clock, rig.log);
  REQUIRE(newer.ok());
  CHECK((*older)->round().error().code == ErrorCode::conflict);
  std::int64_t epoch = (*older)->epoch();
  CHECK(tick(run, epoch, options, rig.clock, rig.log).error().code == ErrorCode::conflict);
  const Deadline deadline(rig.clock, 20'000);
  while (!deadline.passed()) {
    const auto outcome = (*newer)->round();
    REQUIRE(outcome.ok());
    if (outcome->state != RunState::running) break;
    rig.clock.sleep_ms(3);
  }
  CHECK(read_run_status(run)->state == RunState::succeeded);
  CHECK(rig.effects("a") == 1);
  CHECK(rig.effects("b") == 1);
}

TEST_CASE("a round without news is cheap") {
  ControllerRig rig;
  rig.stage("a", "sleep 60");
  for (int i = 0; i < 8; ++i) rig.stage(format("b{}", i), "true", {"a"});
  const std::string run = rig.create();
  TickOptions options;
  options.cpu_slots = 2;
  const auto controller = Controller::open(run, 0, options, rig.clock, rig.log);
  REQUIRE(controller.ok());
  const Deadline deadline(rig.clock, 20'000);
  while ((*controller)->status().find("a")->state != StageState::running && !deadline.passed())
    REQUIRE((*controller)->round().ok());
  constexpr int rounds = 500;
  const std::int64_t start = rig.clock.monotonic_ns();
  for (int i = 0; i < rounds; ++i) CHECK(!(*controller)->round()->changed);
  const double seconds = static_cast<double>(rig.clock.monotonic_ns() - start) * 1e-9;
  MESSAGE("idle rounds per second: ", rounds / seconds);
  CHECK(rounds / seconds > 100);
  REQUIRE(request(run, "cancel", Value::make_table(), rig.clock).ok());
  CHECK(rig.drive_to_end(run).state == RunState::cancelled);
}

TEST_CASE("runs are found by name, prefix, path and age; errors list what is there") {
  ControllerRig rig;
  rig.stage("a", "true");
  CHECK(find_run(rig.root + "/runs", "").error().code == ErrorCode::not_found);
  const std::string first = rig.create();
  const std::string second = rig.create();
  const std::string runs = rig.root + "/runs";
  CHECK(*find_run(runs, "") == second);
  CHECK(*find_run(runs, "latest") == second);
  CHECK(*find_run(runs, file_name(first)) == first);
  CHECK(*find_run(runs, first) == first);
  CHECK(*find_run("/nowhere", first) == first);
  CHECK(*list_runs(runs) == std::vector<std::string>{first, second});
  CHECK(find_run(runs, "test-").error().hint.find(file_name(second)) != std::string::npos);
  CHECK(find_run(runs, "other").error().hint.find(file_name(first)) != std::string::npos);
  CHECK(file_exists(first + "/bin/longhaul-worker"));
  // Nothing half-made is left, also not of a run that could not be made.
  RunOrigin origin;
  origin.programs_dir = "/nowhere";
  CHECK(create_run(runs, rig.plan, origin, rig.clock).error().code == ErrorCode::not_found);
  CHECK(list_directory(runs)->size() == 2);
}

TEST_CASE("a folder of which it cannot be known whether it is a run is one: what it refers to is no garbage") {
  ControllerRig rig;
  rig.stage("a", "true");
  const std::string first = rig.create(), runs = rig.root + "/runs", loop = runs + "/test-later", none = runs + "/none";
  REQUIRE(::symlink(loop.c_str(), loop.c_str()) == 0);  // every question below a link to itself is answered by an error
  REQUIRE(::symlink("/nowhere", none.c_str()) == 0);
  const auto listed = list_runs(runs);
  REQUIRE(listed.ok());
  CHECK(std::set<std::string>(listed->begin(), listed->end()) == std::set<std::string>{first, loop});
}

TEST_CASE("a run takes along what its programs load from the package that they came in") {
  ControllerRig rig;
  const std::string prefix = rig.root + "/a prefix";
  REQUIRE(make_directories(prefix + "/bin").ok());
  REQUIRE(make_directories(prefix + "/lib/longhaul/openmpi/bin").ok());
  for (const char* file : {"/bin/longhaul-worker", "/lib/longhaul/libone.so.1", "/lib/longhaul/openmpi/bin/mpirun"})
    REQUIRE(write_file_atomic(prefix + file, file, 0755).ok());
  RunOrigin origin;
  origin.programs_dir = prefix + "/bin";
  const auto run = create_run(rig.root + "/runs", rig.plan, origin, rig.clock);
  REQUIRE_MESSAGE(run.ok(), (run.ok() ? "" : run.error().message()));
  CHECK(*read_file(*run + "/lib/longhaul/libone.so.1") == "/lib/longhaul/libone.so.1");
  CHECK(::access((*run + "/lib/longhaul/openmpi/bin/mpirun").c_str(), X_OK) == 0);
}

TEST_CASE("raw input: a large file is known by its size, its time and both ends") {
  ControllerRig rig;
  const std::string path = rig.root + "/large";
  constexpr std::int64_t bytes = 17 << 20;
  const timespec times[2] = {{1'700'000'000, 5}, {1'700'000'000, 5}};
  const auto digest_with = [&](std::int64_t at, char byte, std::int64_t size = 17 << 20) {
    REQUIRE(write_file_atomic(path, "").ok());
    REQUIRE(::truncate(path.c_str(), size) == 0);  // nothing on the disk but what is written below
    const int file = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
    REQUIRE(file >= 0);
    REQUIRE(::pwrite(file, &byte, 1, at) == 1);
    ::close(file);
    REQUIRE(::utimensat(AT_FDCWD, path.c_str(), times, 0) == 0);
    return *digest_raw_input({path});
  };
  const std::string same = digest_with(0, 'a');
  CHECK(digest_with(0, 'a') == same);
  CHECK(digest_with(0, 'b') != same);
  const std::string end = digest_with(bytes - 1, 'a');
  CHECK(digest_with(bytes - 1, 'b') != end);
  CHECK(digest_with(bytes - (64 << 10), 'a') != digest_with(bytes - (64 << 10), 'b'));
  CHECK(digest_with(0, 'a', bytes + 1) != same);
  // Between the ends its time shows it, and nothing else.
  CHECK(digest_with(bytes / 2, 'a') == digest_with(bytes / 2, 'b'));
  const std::string before = *digest_raw_input({path});
  REQUIRE(::utimensat(AT_FDCWD, path.c_str(), nullptr, 0) == 0);
  CHECK(*digest_raw_input({path}) != before);
}

TEST_CASE("raw input is known by content and name within its folder, not by path or time") {
  ControllerRig rig;
  const auto put = [&](const std::string& name, const std::string& text) {
    REQUIRE(make_directories(parent_path(rig.root + "/" + name)).ok());
    REQUIRE(write_file_atomic(rig.root + "/" + name, text).ok());
    return rig.root + "/" + parent_path(name);
  };
  put("one/x", "text");
  const std::string one = put("one/sub/y", "more");
  put("two/x", "text");
  put("two/sub/y", "more");
  const auto digest = [&](const std::string& name) { return *digest_raw_input({rig.root + "/" + name}); };
  CHECK(digest("one") == digest("two"));
  CHECK(digest("one/x") == digest("two/x"));
  put("two/x", "tex7");
  CHECK(digest("one") != digest("two"));
  put("two/x", "text");
  CHECK(digest("one") == digest("two"));
  put("two/z", "");
  CHECK(digest("one") != digest("two"));
  CHECK(digest_raw_input({"/nowhere/at/all"}).error().code == ErrorCode::not_found);
}
