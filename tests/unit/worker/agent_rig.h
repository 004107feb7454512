// A table of agents and one real agent, over sockets on loopback, with ranks that are programs that sleep.
#pragma once

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "base/files/files.h"
#include "base/process/process.h"
#include "resiliency/beat/heartbeat_page.h"
#include "tests/support/scratch.h"
#include "worker/agent/agent.h"
#include "worker/lead/agents/agent_table.h"

namespace longhaul {

// Null: no agent has reported it.
inline const RankReport* rank_in(const AgentTable& table, int rank) {
  for (const auto& [host, agent] : table.agents())
    for (const RankReport& report : agent.report.ranks)
      if (report.beat.rank == rank) return &report;
  return nullptr;
}

// Real sockets on loopback, an agent in a thread of its own, pages in a scratch folder.
struct AgentRig {
  testing::Scratch scratch;
  SystemClock clock;
  Logger log{"test", ""};
  std::atomic<bool> stop{false};
  std::thread thread;
  Status ended;
  std::unique_ptr<AgentTable> table;
  std::string worker_program = parent_path(own_program_path()) + "/longhaul-worker";

  std::string path(const std::string& name) const { return join_path(scratch.path(), name); }
  AgentTableOptions options(std::int64_t epoch = 1) const {
    return {"key", path("address"), path("secret"), "127.0.0.1", epoch, false, {"n1", "n2"}, path("record")};
  }
  void open_table(std::int64_t epoch = 1) {
    auto opened = AgentTable::open(options(epoch), clock, log);
    REQUIRE_MESSAGE(opened.ok(), (opened.ok() ? "" : opened.error().message()));
    table = std::move(*opened);
  }
  void start_agent(const std::string& host = "n1", double alone_max_s = 60, Clock* its_clock = nullptr) {
    thread = std::thread([this, host, alone_max_s, its_clock] {
      ended = run_agent({path("address"), path("secret"), host, alone_max_s, worker_program, "attempt-folder"},
                        its_clock ? *its_clock : clock, stop, log);
    });
  }
  bool sees(const std::function<bool()>& what, std::int64_t within_ms = 10'000) {
    for (const Deadline deadline(clock, within_ms); !deadline.passed(); clock.sleep_ms(10)) {
      if (table) table->look();
      if (what()) return true;
    }
    return false;
  }
  ~AgentRig() {
    stop = true;
    if (thread.joinable()) thread.join();
  }
};

// A page whose rank is another process: a program that sleeps.
struct PretendedRank {
  std::string path;
  std::optional<HeartbeatPage> page;
  pid_t pid = -1;

  PretendedRank(const std::string& folder, int rank) : path(beat_page_path(folder, rank)) {
    auto made = HeartbeatPage::create(path, rank);
    REQUIRE(made.ok());
    page.emplace(std::move(made).value());
    SpawnSpec sleeper;
    sleeper.argv = {"sleep", "60"};
    sleeper.dies_with_starter = true;
    const auto started = spawn(sleeper);
    REQUIRE(started.ok());
    pid = *started;
    const FileDescriptor fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    const auto named = static_cast<std::int64_t>(pid);
    REQUIRE(::pwrite(fd.get(), &named, sizeof named, offsetof(BeatPageLayout, pid)) == sizeof named);
  }
  void end() {
    if (pid <= 0) return;
    ::kill(pid, SIGKILL);
    while (!poll_exit(pid)->has_value()) ::usleep(2'000);
    pid = -1;
  }
  ~PretendedRank() { end(); }
};

}  // namespace longhaul
