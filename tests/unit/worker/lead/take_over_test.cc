// A lead that is killed while its ranks work. Three nodes are three addresses of this one, with an agent each, and one
// rank under a launcher; the standby's agent starts another lead, which goes on where the first one stood.
#include <signal.h>
#include <unistd.h>

#include <filesystem>

#include "base/files.h"
#include "base/json.h"
#include "contracts/event.h"
#include "contracts/fault_event.h"
#include "tests/unit/worker/lead_rig.h"
#include "worker/protocol/lead_address.h"

namespace longhaul {
namespace {

constexpr const char* steps_until_told = R"(exec python3 - <<'END'
import os, pathlib, socket, time
state, out = pathlib.Path(os.environ["LONGHAUL_STATE"]), pathlib.Path(os.environ["LONGHAUL_OUT"])
beat, step = None, 0
while beat is None or not (state / "stop").exists():
    step += 1
    try:
        if beat is None:
            new = socket.socket(socket.AF_UNIX)
            new.connect(os.environ["LONGHAUL_BEAT_SOCKET"])
            beat = new
        beat.sendall(b"step %d\n" % step)
    except OSError:
        beat = None
    (state / "step").write_text(str(step))
    time.sleep(0.02)
(out / "text").write_text("%d\n" % os.getpid())
beat.sendall(b"section finished\n")
time.sleep(0.3)
END)";

std::string slurp(const std::filesystem::path& path) {  // "" of a process that has ended meanwhile
  const auto text = read_file(path.string());
  return text.ok() ? *text : "";
}

class ThreeNodes : public LeadRig {
 public:
  ThreeNodes() : LeadRig(steps_until_told) {
    task.resources.nodes = 1;
    attempt.launcher = {"/bin/sh", "-c", "PMIX_RANK=0 exec \"$@\"", "launcher"};
    attempt.agent_launcher = {"/bin/sh", "-c",
                              "for node in 1 2 3; do SLURMD_NODENAME=127.0.0.$node \"$@\" & done; wait", "agents"};
    environment = {{"SLURM_JOB_ID", "7"},
                   {"SLURM_JOB_NODELIST", "127.0.0.1,127.0.0.2,127.0.0.3"},
                   {"SLURMD_NODENAME", "127.0.0.1"}};
  }
  ~ThreeNodes() {
    for (const pid_t pid : processes(attempt.key)) ::kill(pid, SIGKILL);
    for (const pid_t pid : processes(attempt.attempt_dir)) ::kill(pid, SIGKILL);
  }

  // Of everybody: whose words, or environment, have this text.
  static std::vector<pid_t> processes(const std::string& text, const std::string& and_word = {}) {
    std::vector<pid_t> found;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const pid_t pid = static_cast<pid_t>(std::atoi(entry.path().filename().c_str()));
      if (pid <= 0 || pid == ::getpid()) continue;
      const std::string words = slurp(entry.path() / "cmdline");
      const std::string variables = slurp(entry.path() / "environ");
      if ((words + variables).find(text) != std::string::npos && words.find(and_word) != std::string::npos)
        found.push_back(pid);
    }
    return found;
  }
  std::vector<Event> events(const std::string& kind) {
    std::uint64_t offset = 0;
    const auto all = read_events(attempt.events_path(), offset);
    std::vector<Event> found;
    if (all.ok())
      for (const Event& event : *all)
        if (event.kind == kind) found.push_back(event);
    return found;
  }
  void kill_lead(const std::string& word) {
    const std::vector<pid_t> found = processes(attempt.attempt_dir, word);
    REQUIRE(found.size() == 1);
    ::kill(found.front(), SIGKILL);
  }
  // The standby knows what it has to know once it says where it would listen.
  void until_followable() {
    until([&] { return file_exists(standby_address_path(address_path())); });
    until([&] { return !text("work/state/step").empty(); });
  }
  std::string address_path() const { return lead_address_path(attempt.attempt_dir, 0); }
  std::string stage_dir() const { return attempt.stage_dir; }
};

}  // namespace

TEST_CASE("take over: a killed lead is followed, its rank goes on, and its work is published once") {
  ThreeNodes rig;
  const pid_t script = rig.start();
  rig.until_followable();
  rig.kill_lead("--held");
  rig.until([&] { return rig.events("taken_over").size() == 1; });
  const int step = std::atoi(rig.text("work/state/step").c_str());
  rig.until([&] { return std::atoi(rig.text("work/state/step").c_str()) > step; });
  CHECK(read_lead_address(rig.address_path())->epoch == 2);
  REQUIRE(write_file_atomic(rig.stage_dir() + "/state/stop", "").ok());
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
  rig.clock.sleep_ms(4'000);  // the second lead tells a standby of its own what it has to know
  rig.kill_lead("--take-over");
  rig.until([&] { return rig.events("taken_over").size() == 2; });
  CHECK(read_lead_address(rig.address_path())->epoch == 3);
  REQUIRE(write_file_atomic(rig.stage_dir() + "/state/stop", "").ok());
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
  REQUIRE(write_file_atomic(rig.stage_dir() + "/state/stop", "").ok());
  rig.until([&] { return file_exists(rig.attempt.record_path(0)); });
  CHECK(rig.wait(script).success());  // it was there until another lead was done
  CHECK(rig.record().outcome == "succeeded");
  CHECK(rig.record().launches == 2);
}

}  // namespace longhaul
