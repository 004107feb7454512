// Three nodes are three addresses of this one, with an agent each; one rank works under a launcher and says its steps
// until it is asked to come to its end. A lead that is lost is followed by one that the standby's agent starts.
#pragma once

#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "base/files/files.h"
#include "contracts/events/event.h"
#include "tests/unit/worker/lead_rig.h"
#include "worker/protocol/wire/lead_address.h"

namespace longhaul {

inline constexpr const char* steps_until_asked = R"(exec python3 - <<'END'
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

inline std::string slurp(const std::filesystem::path& path) {  // "" of a process that has ended meanwhile
  const auto text = read_file(path.string());
  return text.ok() ? *text : "";
}

class ThreeNodes : public LeadRig {
 public:
  ThreeNodes() : LeadRig(steps_until_asked) {
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

  // Of everybody: whose arguments, or environment, have this text.
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
  void finish() { REQUIRE(write_file_atomic(stage_dir() + "/state/stop", "").ok()); }
  std::string address_path() const { return lead_address_path(attempt.attempt_dir, 0); }
  std::string stage_dir() const { return attempt.stage_dir; }
};

}  // namespace longhaul
