#include "contracts/named_fault.h"

#include <doctest/doctest.h>

#include <set>

#include "base/toml.h"
#include "contracts/settings/faults.h"

namespace longhaul {
namespace {

// [stage.s.faults] of a pretraining with four ranks.
FaultSettings faults_of(const std::string& text, Diagnostics& diagnostics, const std::string& kind = "pretrain") {
  const auto table = parse_toml(text, "wf.toml");
  REQUIRE_MESSAGE(table.ok(), text);
  const Value* faults = table->find("faults");
  REQUIRE(faults);
  return parse_faults(*faults, "stage.s", kind, 4, diagnostics);
}

}  // namespace

TEST_CASE("named faults: the twelve of nvidia-resiliency-ext and our own, each with a way or a reason") {
  std::set<std::string> names;
  for (const NamedFault& fault : named_faults()) {
    CAPTURE(fault.name);
    CHECK(names.insert(fault.name).second);
    CHECK(std::string(fault.what).size() > 10);
    CHECK((fault.means == FaultMeans::signal) == (fault.signal > 0));
    CHECK((fault.means == FaultMeans::point) == !std::string(fault.point).empty());
  }
  for (const char* name : {"GPU_ERROR",         "GPU_SLEEP", "WORKLOAD_EXC",    "ASYNC_EXC",   "SIGNAL_EXC",
                           "OS_ABORT",          "LOCK_GIL",  "SEGFAULT",        "SIGINT",      "SIGKILL",
                           "SIGTERM",           "SIGSTOP",   "slow_rank",       "frozen_host", "cut_network",
                           "dropped_heartbeat", "full_disk", "corrupted_shard", "dead_lead",   "dead_standby",
                           "slurmctld_down",    "xid",       "ecc_storm",       "nan_loss",    "flipped_bit"})
    CHECK_MESSAGE(names.count(name) == 1, name);
}

TEST_CASE("faults of a workflow: what is written is what is planned, and survives a file") {
  Diagnostics diagnostics;
  const FaultSettings settings = faults_of(
      "[faults]\nat = [ { name = \"SIGKILL\", rank = 1, step = 20 },\n"
      "  { name = \"dropped_heartbeat\", rank = 2, after = \"10s\", lasts = \"3s\", every_launch = true } ]\n"
      "schedule = { seed = 7, every = \"30s\", names = [\"SIGSTOP\", \"ASYNC_EXC\"], count = 20 }\n",
      diagnostics);
  CHECK_MESSAGE(diagnostics.empty(), diagnostics.render(""));
  CHECK(settings.allowed);
  REQUIRE(settings.at.size() == 2);
  CHECK(settings.at[0] == FaultRequest{"SIGKILL", 1, 20});
  CHECK(settings.at[1] == FaultRequest{"dropped_heartbeat", 2, 0, {10}, {3}, true});
  CHECK(settings.schedule == FaultSchedule{7, {30}, {"SIGSTOP", "ASYNC_EXC"}, 20});
  const auto back = faults_from_value(faults_to_value(settings));
  REQUIRE(back.ok());
  CHECK(*back == settings);
  CHECK(faults_to_value({}).size() == 0);
  CHECK_FALSE(faults_from_value(Value::make_table())->allowed);
}

TEST_CASE("faults of a workflow: everything that is wrong is said at once, each at its place") {
  Diagnostics diagnostics;
  faults_of(
      "[faults]\n"
      "often = true\n"
      "at = [ { name = \"SIGKIL\", rank = 1, step = 20 },\n"
      "       { name = \"LOCK_GIL\", step = 20 },\n"
      "       { name = \"SIGKILL\", rank = 4, step = 20 },\n"
      "       { name = \"SIGKILL\", step = 20, after = \"3s\" },\n"
      "       { name = \"SIGKILL\" },\n"
      "       { rank = 1, step = 3 },\n"
      "       { name = \"SIGKILL\", stp = 3, after = \"3s\" },\n"
      "       7 ]\n"
      "schedule = { every = 30, names = [\"SIGKILL\", \"cut_network\"] }\n",
      diagnostics);
  const std::string said = diagnostics.render("nothing was submitted");
  for (const char* part :
       {"wf.toml:2:1: error: unknown key 'often'", "there is no fault 'SIGKIL'; did you mean 'SIGKILL'?",
        "LOCK_GIL cannot be injected here; there is no Python", "rank = 4, and the stage has 4 ranks; 0 to 3",
        "has both step and after", "does not say when", "at[5].name is missing", "unknown key 'stp'",
        "at[7] is integer, expected a table", "schedule.every is integer, expected duration",
        "names[1]: cut_network cannot be injected here", "11 errors; nothing was submitted"})
    CHECK_MESSAGE(said.find(part) != std::string::npos, part, "\n", said);
  for (int line = 3; line <= 11; ++line)
    CHECK_MESSAGE(said.find("wf.toml:" + std::to_string(line) + ":") != std::string::npos, line, "\n", said);
}

TEST_CASE("faults of a workflow: a program that is not ours takes signals only") {
  Diagnostics diagnostics;
  faults_of(
      "[faults]\nat = [ { name = \"SIGSTOP\", step = 2 }, { name = \"nan_loss\", step = 2 }, "
      "{ name = \"corrupted_shard\", step = 2 } ]\n",
      diagnostics, "command");
  CHECK(diagnostics.size() == 2);
}

}  // namespace longhaul
