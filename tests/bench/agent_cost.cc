// agent_cost [--seconds N] [--step-ms N] [--pages N ...]: what one agent costs its node, beside the bars of 20 MB of
// resident memory and 0.1 % of the step time: the real `longhaul-worker agent`, which this program leads, with so many
// pages of ranks that all step five times a second, or as often as asked (an agent looks less often where steps are
// long), and work in four communicators, so that every look finds all pages changed. Each rank is a process of its own,
// for the agent asks the kernel about each. What counts is what the agent says itself (NodeReport), and the kernel's
// highest resident size of it (VmHWM, proc(5)).
//
// The bar is on processor time: an agent takes a rank's core for as long as it works, so its time is a part of the step
// time of the ranks of its node, which have a core each at least. The time of one core stands beside it: what a step
// grows by if the agent always disturbs the same rank, and all others wait for that one.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <optional>
#include <vector>

#include "base/files/files.h"
#include "base/process/log.h"
#include "base/process/process.h"
#include "base/system/clock.h"
#include "base/text/text.h"
#include "resiliency/beat/heartbeat_page.h"
#include "tests/support/scratch.h"
#include "worker/lead/agents/agent_table.h"

using namespace longhaul;

namespace {

constexpr double bar_share = 1e-3;
constexpr std::int64_t bar_kib = 20'000'000 / 1024, beat_every_ms = 10, warm_up_ms = 2'000,
                       ping_every_ms = 500;  // as a lead does (worker/lead/job_lead.cc)
constexpr int collectives_a_beat = 5;

// Ends with its owner, and is waited for.
class Child {
 public:
  Child(std::vector<std::string> argv, std::vector<std::pair<std::string, std::string>> environment = {}) {
    SpawnSpec spec;
    spec.argv = std::move(argv);
    spec.environment = std::move(environment);
    spec.dies_with_starter = true;
    const auto pid = spawn(spec);
    LH_ASSERT(pid.ok(), pid.ok() ? "" : pid.error().message());
    pid_ = *pid;
  }
  ~Child() {
    if (pid_ <= 0) return;
    (void)::kill(pid_, SIGKILL);
    for (auto exit = poll_exit(pid_); exit.ok() && !exit->has_value(); exit = poll_exit(pid_)) ::usleep(1'000);
  }
  Child(Child&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}
  Child(const Child&) = delete;
  Child& operator=(Child&&) = delete;
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
};

struct Rank {
  Child process;
  HeartbeatPage page;
  std::vector<int> communicators, sections;
};

Rank make_rank(const std::string& folder, int number) {
  Child process({"sleep", "3600"});
  HeartbeatPage page = HeartbeatPage::create(beat_page_path(folder, number), number).value();
  page.process(process.pid());
  Rank rank{std::move(process), std::move(page), {}, {}};
  for (const char* name : {"world", "dp@0", "tp@0", "pp@0"}) rank.communicators.push_back(rank.page.communicator(name));
  for (const char* name : {"forward", "backward", "update"}) rank.sections.push_back(rank.page.section(name));
  return rank;
}

void beat(Rank& rank, std::int64_t tick, std::int64_t step_ms) {
  const std::int64_t beats_of_step = step_ms / beat_every_ms;
  if (tick % beats_of_step == 0) rank.page.step(tick / beats_of_step);
  rank.page.enter(rank.sections[static_cast<std::size_t>(tick) % rank.sections.size()]);
  for (const int communicator : rank.communicators)
    for (int i = 0; i < collectives_a_beat; ++i) rank.page.enqueued(communicator), rank.page.completed(communicator);
  rank.page.waits(rank.communicators[static_cast<std::size_t>(tick) % rank.communicators.size()]);
}

std::int64_t highest_rss_kib(pid_t pid) {
  const auto status = read_file(format("/proc/{}/status", pid));
  const auto at = status.ok() ? status->find("VmHWM:") : std::string::npos;
  return at == std::string::npos ? 0 : std::atoll(status->c_str() + at + std::strlen("VmHWM:"));
}

struct AgentCost {
  int pages = 0;
  double cpu_s = 0, seconds = 0, reports = 0;
  std::int64_t rss_kib = 0, rss_highest_kib = 0;
  double of_core() const { return cpu_s / seconds; }
  double of_ranks() const { return of_core() / pages; }
  bool met() const { return of_ranks() <= bar_share && rss_highest_kib <= bar_kib; }
};

AgentCost measure(int pages, double seconds, std::int64_t step_ms) {
  const testing::Scratch folder;
  SystemClock clock;
  Logger log("agent_cost", "");
  AgentTableOptions options;
  options.attempt_key = "agent-cost";
  options.address_path = lead_address_path(folder.path(), 0);
  options.secret_path = lead_secret_path(folder.path(), 0);
  options.host = "127.0.0.1";
  options.hosts = {"node"};
  auto table = AgentTable::open(options, clock, log);
  LH_ASSERT(table.ok(), table.ok() ? "" : table.error().message());
  std::vector<Rank> ranks;
  std::vector<int> numbers;
  for (int number = 0; number < pages; ++number) {
    ranks.push_back(make_rank(folder.path(), number));
    numbers.push_back(number);
  }
  const Child agent({parent_path(own_program_path()) + "/longhaul-worker", "agent", "--attempt", folder.path()},
                    {{"SLURMD_NODENAME", "node"}});
  (*table)->watch(1, folder.path(), {{"node", numbers}});

  AgentCost cost;
  cost.pages = pages;
  std::int64_t tick = 0, heard_ns = 0;
  AgentOrder ping;
  ping.kind = AgentOrder::Kind::ping;
  const auto run_for = [&](std::int64_t ms, const std::function<bool()>& until) {
    for (const Deadline deadline(clock, ms); !deadline.passed() && !until(); clock.sleep_ms(beat_every_ms), ++tick) {
      for (Rank& rank : ranks) beat(rank, tick, step_ms);
      if (tick % (ping_every_ms / beat_every_ms) == 0) (*table)->order_all(ping);
      (*table)->look();
      if (const AgentState& seen = (*table)->agents().at("node"); seen.heard_ns != heard_ns)
        heard_ns = seen.heard_ns, cost.reports += 1;
    }
  };
  const auto never = [] { return false; };
  const auto report = [&] { return (*table)->agents().at("node").report; };
  run_for(10'000, [&] { return static_cast<int>(report().ranks.size()) == pages; });
  LH_ASSERT(static_cast<int>(report().ranks.size()) == pages, "the agent has not reported its ranks within 10 s");
  run_for(warm_up_ms, never);
  const double cpu_before = report().agent_cpu_s;
  const std::int64_t begun_ns = heard_ns;
  cost.reports = 0;
  run_for(static_cast<std::int64_t>(seconds * 1e3), never);
  const NodeReport last = report();
  cost.cpu_s = last.agent_cpu_s - cpu_before;
  cost.seconds = static_cast<double>(heard_ns - begun_ns) * 1e-9;
  cost.rss_kib = last.agent_rss_kib;
  cost.rss_highest_kib = highest_rss_kib(agent.pid());
  (*table)->end(2'000);
  return cost;
}

}  // namespace

int main(int argc, char** argv) {
  double seconds = 20;
  std::int64_t step_ms = 200;
  std::vector<int> pages;
  for (int i = 1; i < argc; ++i) {
    if (!std::strcmp(argv[i], "--seconds") && i + 1 < argc)
      seconds = std::max(1.0, std::atof(argv[++i]));
    else if (!std::strcmp(argv[i], "--step-ms") && i + 1 < argc)
      step_ms = std::max<std::int64_t>(beat_every_ms, std::atoll(argv[++i]));
    else if (!std::strcmp(argv[i], "--pages"))
      while (i + 1 < argc && std::atoi(argv[i + 1]) > 0) pages.push_back(std::atoi(argv[++i]));
  }
  if (pages.empty()) pages = {1, 8, 64};
  std::printf("%5s %9s %12s %14s %12s %14s %10s %12s\n", "pages", "reports/s", "CPU ms/s", "CPU ms/step", "of a core",
              "of the ranks", "RSS MB", "highest MB");
  bool met = true;
  for (const int count : pages) {
    const AgentCost cost = measure(count, seconds, step_ms);
    met &= cost.met();
    std::printf("%5d %9.1f %12.2f %14.3f %10.3f %% %12.4f %% %10.1f %12.1f\n", cost.pages, cost.reports / cost.seconds,
                1e3 * cost.of_core(), cost.of_core() * static_cast<double>(step_ms), 1e2 * cost.of_core(),
                1e2 * cost.of_ranks(), static_cast<double>(cost.rss_kib) * 1024e-6,
                static_cast<double>(cost.rss_highest_kib) * 1024e-6);
  }
  std::printf("\nbar: at most %.1f %% of the step time of the node's ranks (steps of %.1f s), at most 20 MB: %s\n",
              100 * bar_share, static_cast<double>(step_ms) * 1e-3, met ? "met" : "missed");
  return met ? 0 : 1;
}
