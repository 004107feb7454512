// Entries that ranks leave for each other, through real agents and the lead's table. Hosts are folders: each agent is a
// process that works in one of its own, and the folder that the lead names for all hosts is not absolute.
#include <doctest/doctest.h>
#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>

#include "base/files/files.h"
#include "base/process/process.h"
#include "base/text/text.h"
#include "contracts/control/rendezvous_folder.h"
#include "tests/support/patience.h"
#include "tests/support/scratch.h"
#include "worker/lead/agents/agent_table.h"

namespace longhaul {
namespace {

const std::vector<std::string> store_hosts = {"n1", "n2", "n3"};

struct StoreHosts {
  testing::Scratch scratch;
  SystemClock clock;
  Logger log{"test", ""};
  std::map<std::string, pid_t> agents;
  std::unique_ptr<AgentTable> table;
  int launch = 0;

  StoreHosts() {
    open_table(1);
    for (const std::string& host : store_hosts) start_agent(host);
    watch(1);
  }
  ~StoreHosts() {
    for (const std::string& host : store_hosts) kill_agent(host);
  }
  void open_table(std::int64_t epoch) {
    AgentTableOptions options{"key",
                              lead_address_path(scratch.path(), 0),
                              lead_secret_path(scratch.path(), 0),
                              "127.0.0.1",
                              epoch,
                              false,
                              store_hosts};
    auto opened = AgentTable::open(options, clock, log);
    REQUIRE_MESSAGE(opened.ok(), (opened.ok() ? "" : opened.error().message()));
    table = std::move(*opened);
  }
  void start_agent(const std::string& host) {
    SpawnSpec spec;
    spec.argv = {parent_path(own_program_path()) + "/longhaul-worker", "agent", "--attempt", scratch.path()};
    spec.environment = {{"SLURMD_NODENAME", host}};
    spec.environment_removed = {"SLURM_*"};
    spec.working_directory = scratch.file(host);
    spec.dies_with_starter = true;
    REQUIRE(make_directories(spec.working_directory).ok());
    const auto pid = spawn(spec);
    REQUIRE(pid.ok());
    agents[host] = *pid;
  }
  void kill_agent(const std::string& host) {
    if (agents[host] <= 0) return;
    ::kill(agents[host], SIGKILL);
    while (!poll_exit(agents[host])->has_value()) clock.sleep_ms(2);
    agents[host] = 0;
  }
  void watch(int number) {
    launch = number;
    const std::string pages = format("pages-{}", number);
    table->watch(number, pages, {{"n1", {0}}, {"n2", {1}}, {"n3", {2}}}, 0, 0, join_path(pages, "store"));
    for (const std::string& host : store_hosts)
      if (agents[host] > 0) until([&] { return is_directory(wanted_entries_folder(folder(host))); });
  }
  void until(const std::function<bool()>& what) {
    for (const Deadline deadline(clock, 10'000); !what(); clock.sleep_ms(1)) {
      REQUIRE(!deadline.passed());
      if (table) table->look();
    }
  }
  void for_a_while(std::int64_t ms) {
    for (const Deadline deadline(clock, ms); !deadline.passed(); clock.sleep_ms(5))
      if (table) table->look();
  }

  // What a rank would do (engine/comm/rendezvous.h).
  std::string folder(const std::string& host) const { return scratch.file(format("{}/pages-{}/store", host, launch)); }
  void put(const std::string& host, const std::string& name, const std::string& value) {
    REQUIRE(create_file_exclusive(join_path(folder(host), name), value).ok());
  }
  void want(const std::string& host, const std::string& name) {
    REQUIRE(write_file_renamed(join_path(wanted_entries_folder(folder(host)), name), "").ok());
  }
  std::string carried(const std::string& host, const std::string& name) const {
    const auto value = read_file(join_path(carried_entries_folder(folder(host)), name));
    return value.ok() ? *value : "<none>";
  }
  std::string refused(const std::string& host, const std::string& name) const {
    const auto why = read_file(join_path(refused_entries_folder(folder(host)), name));
    return why.ok() ? *why : "";
  }
  void until_carried(const std::string& host, const std::string& name, const std::string& value) {
    CAPTURE(host);
    CAPTURE(name);
    until([&] { return carried(host, name) != "<none>"; });
    CHECK(carried(host, name) == value);
  }
};

}  // namespace

TEST_CASE("store over agents: one host's entry is seen by those that look for it, and there alone") {
  StoreHosts hosts;
  hosts.want("n2", "id");
  hosts.for_a_while(50);
  hosts.put("n1", "id", std::string("w\0w", 3));
  hosts.until_carried("n2", "id", std::string("w\0w", 3));
  CHECK(hosts.carried("n3", "id") == "<none>");
  hosts.want("n3", "id");
  hosts.until_carried("n3", "id", std::string("w\0w", 3));
  hosts.for_a_while(1'300);  // after an order agents look more often for a moment; then every 0.1 s
  std::vector<std::int64_t> took_ms;
  for (int i = 0; i < 21; ++i) {
    const std::string name = format("next{}", i);
    hosts.want("n2", name);
    hosts.for_a_while(20);
    const std::int64_t begun = hosts.clock.monotonic_ns();
    hosts.put("n1", name, "w");
    hosts.until_carried("n2", name, "w");
    took_ms.push_back((hosts.clock.monotonic_ns() - begun) / 1'000'000);
  }
  std::sort(took_ms.begin(), took_ms.end());
  std::printf("an entry from host to host: %d ms in the median of 21, with a lead that looks all the time\n",
              static_cast<int>(took_ms[10]));
  // Not only when agents look at their pages, every 100 to 300 ms: of 21 such waits at most four end within 20 ms. The
  // quicker third counts, for what else this machine does makes some wait; on a slow machine it says less.
  CHECK(took_ms[7] <= testing::patience_ms(20));
}

TEST_CASE(
    "store over agents: an agent that dies loses none, of those that it had reported and of those that it had not") {
  StoreHosts hosts;
  hosts.put("n1", "reported", "a");
  hosts.want("n2", "later");
  hosts.for_a_while(300);
  hosts.kill_agent("n1"), hosts.kill_agent("n2");
  hosts.put("n1", "later", "b");
  hosts.want("n2", "reported");
  hosts.for_a_while(50);
  CHECK(hosts.carried("n2", "later") == "<none>");
  hosts.start_agent("n1"), hosts.start_agent("n2");
  hosts.until_carried("n2", "reported", "a");
  hosts.until_carried("n2", "later", "b");
}

TEST_CASE("store over agents: a lead that follows another hears of all that is there") {
  StoreHosts hosts;
  hosts.put("n1", "old", "a");
  hosts.want("n3", "late");
  hosts.for_a_while(300);
  hosts.table.reset();
  hosts.put("n1", "between", "b");
  hosts.want("n2", "between");
  hosts.clock.sleep_ms(100);
  hosts.open_table(2);
  hosts.until(
      [&] { return hosts.table->connected() == 3; });  // what they say before they have an order to watch is no use
  hosts.watch(1);
  hosts.want("n2", "old");
  hosts.until_carried("n2", "old", "a");
  hosts.until_carried("n2", "between", "b");
  hosts.put("n1", "late", "c");
  hosts.until_carried("n3", "late", "c");
}

TEST_CASE("store over agents: a launch knows none of the one before") {
  StoreHosts hosts;
  hosts.put("n1", "id", "of the first");
  hosts.want("n2", "id");
  hosts.until_carried("n2", "id", "of the first");
  hosts.kill_agent("n1");
  hosts.put("n1", "never", "of the first");  // nobody has reported it before the next launch
  hosts.watch(2);
  hosts.start_agent("n1");
  hosts.until([&] { return is_directory(wanted_entries_folder(hosts.folder("n1"))); });
  for (const char* name : {"id", "never"}) hosts.want("n2", name);
  hosts.for_a_while(500);
  for (const char* name : {"id", "never"}) CHECK(hosts.carried("n2", name) == "<none>");
  hosts.put("n1", "id", "of the second");
  hosts.until_carried("n2", "id", "of the second");
}

TEST_CASE(
    "store over agents: two values under one name are reported where they were left and where one is looked for") {
  StoreHosts hosts;
  hosts.put("n1", "id", "w");
  hosts.put("n2", "id", "v");
  hosts.until([&] { return !hosts.refused("n1", "id").empty() && !hosts.refused("n2", "id").empty(); });
  CHECK(hosts.refused("n1", "id") == hosts.refused("n2", "id"));
  for (const char* host : {"n1", "n2"}) CHECK(hosts.refused("n1", "id").find(host) != std::string::npos);
  hosts.want("n3", "id");
  hosts.until([&] { return !hosts.refused("n3", "id").empty(); });
}

TEST_CASE("store over agents: epochs that ranks have left behind take no room") {
  StoreHosts hosts;
  const auto epoch = [&](int number) {
    const std::string name = format("epoch{}", number);
    hosts.put("n1", name, "w"), hosts.want("n2", name);
    hosts.until_carried("n2", name, "w");
  };
  epoch(1);
  hosts.table->restart(2);
  hosts.for_a_while(100);
  epoch(2);
  CHECK(hosts.carried("n2", "epoch1") == "w");
  hosts.table->restart(3);
  hosts.until([&] { return hosts.carried("n2", "epoch1") == "<none>"; });
  hosts.until([&] { return !file_exists(join_path(hosts.folder("n1"), "epoch1")); });
  epoch(3);
  CHECK(hosts.carried("n2", "epoch2") == "w");
}

}  // namespace longhaul
