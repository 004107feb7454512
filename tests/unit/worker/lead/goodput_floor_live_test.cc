// A live job that gets a step further with each of its restarts and spends its time on them: after half an hour of it
// the lead gives the job up for another one, and says why. The lead runs in a process of this program, by a clock that
// leaves out the minutes in which its ranks start; agents and ranks are those of every other job.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <new>

#include "contracts/events/event.h"
#include "contracts/events/fault_event.h"
#include "tests/unit/worker/three_nodes.h"
#include "worker/lead/lead.h"

namespace longhaul {
namespace {

constexpr std::int64_t minute_ms = 60'000;

// Seen by the test and by the lead that is forked from it.
struct Ahead {
  std::atomic<std::int64_t> ms{0};    // of this machine's clock
  std::atomic<std::int64_t> seen{0};  // the lead has looked at a clock that was so far ahead
};

// As far ahead of this machine as the test says, while the lead works.
class LeadClock final : public Clock {
 public:
  explicit LeadClock(Ahead& ahead) : ahead_(ahead) {}
  std::int64_t wall_ms() const override { return real_.wall_ms() + ahead_.ms; }
  std::int64_t monotonic_ns() const override {
    const std::int64_t ms = ahead_.ms;
    ahead_.seen = ms;
    return real_.monotonic_ns() + ms * 1'000'000;
  }
  void sleep_ms(std::int64_t ms) override { real_.sleep_ms(ms); }

 private:
  SystemClock real_;
  Ahead& ahead_;
};

struct SharedMemory {
  void* const memory = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  Ahead& ahead = *new (memory) Ahead;
  ~SharedMemory() { ::munmap(memory, 4096); }
};

struct EndedAtLast {
  pid_t pid;
  ~EndedAtLast() { ::kill(pid, SIGKILL); }
};

// Each launch counts steps while the test has a file `go` there, and is killed once it is gone.
constexpr const char* steps_until_gone = R"(while [ ! -e $LONGHAUL_STATE/go ]; do sleep 0.02; done
exec python3 - <<'END'
import os, pathlib, signal, socket, time
state = pathlib.Path(os.environ["LONGHAUL_STATE"])
beat, step = socket.socket(socket.AF_UNIX), 0
while beat.connect_ex(os.environ["LONGHAUL_BEAT_SOCKET"]) != 0:  # its agent makes it
    time.sleep(0.02)
while (state / "go").exists():
    step += 1
    beat.sendall(b"step %d\n" % step)
    (state / "step").write_text(str(step))
    time.sleep(0.02)
os.kill(os.getpid(), signal.SIGKILL)
END)";

}  // namespace

TEST_CASE("floor of goodput: a live lead of a job that restarts again and again asks for another one, and says why") {
  ThreeNodes rig;
  CommandSettings settings;
  settings.script = steps_until_gone;
  rig.task.settings = command_fields().to_value(settings);
  rig.attempt.resiliency.restarts = 100;
  rig.attempt.resiliency.on_hang = "ignore";  // pages have the machine's clock, and by the lead's they stand for hours
  rig.write();
  SharedMemory shared;
  const std::string worker = parent_path(own_program_path()) + "/longhaul-worker";
  const pid_t lead = ::fork();
  REQUIRE(lead >= 0);
  if (lead == 0) {
    for (const auto& [name, value] : rig.environment) ::setenv(name.c_str(), value.c_str(), 1);
    const FileDescriptor said(::open((rig.root() + "/lead.log").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600));
    ::dup2(said.get(), STDERR_FILENO);
    AllocationInfo job;
    job.scheduler_job = "7", job.nodes = "127.0.0.1,127.0.0.2,127.0.0.3", job.node = "127.0.0.1";
    LeadClock clock(shared.ahead);
    Logger log("lead", "");
    const auto end = run_lead(rig.attempt.attempt_dir, worker, job, clock, log);
    ::_exit(end.ok() ? 0 : 1);
  }
  const EndedAtLast ended{lead};
  const std::string state = rig.stage_dir() + "/state";
  EventWriter of_rank(rig.clock, rig.attempt.events_path(), 0);
  const auto say = [&](const std::string& kind, std::int64_t step) {
    Value fields = Value::make_table();
    fields.set("step", step);
    of_rank.write(kind, std::move(fields));
  };
  std::size_t launch = 0;
  while (rig.events("goodput_floor").empty() && launch < 12) {
    rig.until([&] { return rig.events("launched").size() > launch; });
    REQUIRE_MESSAGE(rig.events("launched").size() == ++launch, rig.text("lead.log"));
    REQUIRE(remove_tree(state + "/step").ok());
    shared.ahead.ms += 6 * minute_ms;  // of start-up
    rig.until([&] { return shared.ahead.seen == shared.ahead.ms; });
    REQUIRE(write_file_atomic(state + "/go", "").ok());
    rig.until([&] { return !rig.text("work/state/step").empty(); });
    say("ready", static_cast<std::int64_t>(launch));
    say("metric", static_cast<std::int64_t>(launch) + 1);
    say("checkpoint", static_cast<std::int64_t>(launch) + 1);  // a step further than ever
    REQUIRE_MESSAGE(rig.events(fault_event_kind).size() == launch - 1, rig.text("lead.log"));
    REQUIRE(remove_tree(state + "/go").ok());
    rig.until([&] { return rig.events(fault_event_kind).size() == launch; });
  }
  CAPTURE(launch);
  REQUIRE(rig.events("goodput_floor").size() == 1);
  const auto faults = rig.events(fault_event_kind);
  // More than five of one node or one cause, and more than half an hour. Whether the guard sees a rank end before its
  // launcher does decides whether a fault names the node and how its cause reads.
  CHECK(faults.size() >= 6);
  for (std::size_t i = 0; i + 1 < faults.size(); ++i) {
    const std::string tier = faults[i].fields.get_string("tier");
    CHECK_MESSAGE((tier == "in_job" || tier == "swap"), tier);
  }
  CHECK(faults.back().fields.get_string("tier") == "new_job");
  const std::string said = rig.events("goodput_floor").front().fields.get_string("text");
  CHECK_MESSAGE(said.find("% of the last") != std::string::npos, said);
  CHECK_MESSAGE(said.find("fault 6 of ") != std::string::npos, said);
  rig.until([&] { return file_exists(rig.attempt.record_path(0)); });
  CHECK(rig.wait(lead).code == 0);
  CHECK(rig.record().outcome == "failed");
  CHECK(rig.record().ended_by == "fault");
}

}  // namespace longhaul
