// A lead that is killed while its ranks work: the standby's agent starts another one, which goes on where the first one
// stood.
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>

#include "contracts/events/fault_event.h"
#include "tests/support/sanitized.h"
#include "tests/support/scratch.h"
#include "tests/unit/worker/three_nodes.h"
#include "worker/lead/lead.h"

namespace longhaul {

TEST_CASE("trust: a state that another could have read or written is not taken over") {
  const testing::Scratch scratch;
  SystemClock clock;
  Logger log("lead", "", LogLevel::error);
  const std::string state = scratch.file("state");
  const auto refused = [&](const std::string& why) {
    const auto end = take_over(scratch.path(), "longhaul-worker", {}, state, FileDescriptor(), clock, log);
    return !end.ok() && end.error().code == ErrorCode::invalid_input &&
           end.error().message().find(why) != std::string::npos;
  };
  REQUIRE(write_file_atomic(state, "{}", 0600).ok());
  REQUIRE(::chmod(state.c_str(), 0644) == 0);
  CHECK(refused("mode 0644"));
  REQUIRE(::chmod(state.c_str(), 0666) == 0);
  CHECK(refused("mode 0666"));
  REQUIRE(::rename(state.c_str(), scratch.file("other").c_str()) == 0);
  REQUIRE(::chmod(scratch.file("other").c_str(), 0600) == 0);
  REQUIRE(::symlink(scratch.file("other").c_str(), state.c_str()) == 0);
  CHECK(refused("a link of"));
}

TEST_CASE("take over: a killed lead is followed, its rank goes on, and its work is published once") {
  ThreeNodes rig;
  const pid_t script = rig.start();
  rig.until_followable();
  rig.kill_lead("--held");
  rig.until([&] { return rig.events("taken_over").size() == 1; });
  const int step = std::atoi(rig.text("work/state/step").c_str());
  rig.until([&] { return std::atoi(rig.text("work/state/step").c_str()) > step; });
  CHECK(read_lead_address(rig.address_path())->epoch == 2);
  rig.finish();
  rig.until([&] { return file_exists(rig.attempt.record_path(0)); });
  CHECK(rig.wait(script).success());  // it was there until another lead was done
  CHECK(rig.record().outcome == "succeeded");
  CHECK(rig.record().launches == 1);
  CHECK(rig.events("launched").size() == 1);
  CHECK(file_exists(rig.attempt.out_dir() + "/text"));
  rig.until([&] { return !file_exists(rig.address_path()); });
}

TEST_CASE("take over: the second lead dies as well, and a third one goes on") {
  ThreeNodes rig;
  const pid_t script = rig.start();
  rig.until_followable();
  rig.kill_lead("--held");
  rig.until([&] { return rig.events("taken_over").size() == 1; });
  rig.clock.sleep_ms(4'000);  // the second lead reports to a standby of its own what it has to know
  rig.kill_lead("--take-over");
  rig.until([&] { return rig.events("taken_over").size() == 2; });
  CHECK(read_lead_address(rig.address_path())->epoch == 3);
  rig.finish();
  rig.until([&] { return file_exists(rig.attempt.record_path(0)); });
  CHECK(rig.wait(script).success());  // it was there until another lead was done
  CHECK(rig.record().outcome == "succeeded");
  CHECK(rig.record().launches == 1);
}

TEST_CASE("take over: a rank that is killed under the second lead is started again by it") {
  ThreeNodes rig;
  rig.attempt.resiliency.restarts = 2;
  const pid_t script = rig.start();
  rig.until_followable();
  rig.kill_lead("--held");
  rig.until([&] { return rig.events("taken_over").size() == 1; });
  for (const pid_t pid : rig.processes(rig.attempt.key, "python3")) ::kill(pid, SIGKILL);
  rig.until([&] { return rig.events("launched").size() == 2; });
  REQUIRE(remove_tree(rig.stage_dir() + "/state/step").ok());
  rig.until([&] { return !rig.text("work/state/step").empty(); });
  REQUIRE(rig.events(fault_event_kind).size() == 1);
  CHECK(rig.events(fault_event_kind).front().fields.get_string("tier") == "in_job");
  rig.finish();
  rig.until([&] { return file_exists(rig.attempt.record_path(0)); });
  CHECK(rig.wait(script).success());  // it was there until another lead was done
  CHECK(rig.record().outcome == "succeeded");
  CHECK(rig.record().launches == 2);
}

TEST_CASE("take over: late in a job the next lead reads what its standby was not sent, not the events of weeks") {
  ThreeNodes rig;
  std::string earlier;
  Value fields = Value::make_table();
  fields.set("step", 1);
  const std::string line = event_line({1'000, "metric", 0, fields});
  while (earlier.size() < (testing::sanitized ? 800'000 : 2'000'000)) earlier += line;
  const std::string first_attempt = rig.stage_dir() + "/attempts/1";
  REQUIRE(make_directories(first_attempt).ok());
  REQUIRE(write_file_atomic(join_path(first_attempt, "events.jsonl"), earlier).ok());
  const pid_t script = rig.start();
  rig.until_followable();
  rig.kill_lead("--held");
  rig.until([&] { return rig.events("taken_over").size() == 1; });
  std::string said;
  for (const char* host : {"127.0.0.1", "127.0.0.2", "127.0.0.3"})
    if (const auto log = read_file(agent_log_path(rig.attempt.attempt_dir, host)); log.ok()) said += *log;
  const std::size_t at = said.find("event=events_read from=");
  REQUIRE(at != std::string::npos);
  std::int64_t from = 0, bytes = 0;
  REQUIRE(std::sscanf(said.c_str() + at, "event=events_read from=%ld bytes=%ld", &from, &bytes) == 2);
  CHECK(from >= static_cast<std::int64_t>(earlier.size()));
  CHECK(bytes < 100'000);
  rig.finish();
  CHECK(rig.wait(script).success());
  CHECK(rig.record().outcome == "succeeded");
}

}  // namespace longhaul
