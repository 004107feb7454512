#include "contracts/settings/job/named_fault.h"

#include <doctest/doctest.h>

#include <set>

#include "base/toml.h"
#include "contracts/settings/job/faults.h"

namespace longhaul {
namespace {

// [stage.s.faults] of a pretraining with four ranks.
FaultSettings faults_of(const std::string& text, Diagnostics& diagnostics, const std::string& kind = "pretrain",
                        const FaultCommands& commands = {}, bool health_watched = true) {
  const auto table = parse_toml(text, "wf.toml");
  REQUIRE_MESSAGE(table.ok(), text);
  const Value* faults = table->find("faults");
  REQUIRE(faults);
  return parse_faults(*faults, "stage.s", {kind, 4, &commands, health_watched}, diagnostics);
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
  CHECK(settings.commands == FaultCommands());
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
      "       { name = \"GPU_SLEEP\", step = 20 },\n"
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
        "GPU_SLEEP cannot be injected here; it takes a kernel", "rank = 4, and the stage has 4 ranks; 0 to 3",
        "has both step and after", "does not say when", "at[5].name is missing", "unknown key 'stp'",
        "at[7] is integer, expected a table", "schedule.every is integer, expected duration",
        "names[1]: cut_network needs a command of the site, and its site file has none; [faults] cut_network = ",
        "11 errors; nothing was submitted"})
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

TEST_CASE("faults of a workflow: an XID has its number, and somebody has to look at the GPUs") {
  const std::string good =
      "[faults]\nat = [ { name = \"xid\", xid = 79, step = 2 }, { name = \"ecc_storm\", step = 2 } ]\n"
      "schedule = { names = [\"xid\"], xid = 48 }\n";
  Diagnostics none;
  const FaultSettings settings = faults_of(good, none);
  CHECK_MESSAGE(none.empty(), none.render(""));
  CHECK(settings.at.front().xid == 79);
  CHECK(fault_request_text(settings.at.front()) == "xid 79 of rank 0 at step 2");
  CHECK(settings.schedule.xid == 48);
  CHECK(*faults_from_value(faults_to_value(settings)) == settings);

  Diagnostics unwatched;
  faults_of(good, unwatched, "pretrain", {}, false);
  CHECK(unwatched.size() == 3);
  CHECK(unwatched.render("").find("resiliency.health is \"off\"; say \"watch\" or \"act\"") != std::string::npos);

  Diagnostics wrong;
  faults_of(
      "[faults]\nat = [ { name = \"xid\", step = 2 },\n { name = \"SIGKILL\", xid = 79, step = 2 },\n"
      " { name = \"xid\", xid = -1, step = 2 } ]\n",
      wrong);
  const std::string said = wrong.render("");
  CHECK_MESSAGE(
      said.find("wf.toml:2:17: error: stage.s.faults.at[0]: xid does not say which; xid = 79") != std::string::npos,
      said);
  CHECK_MESSAGE(said.find("at[1].xid is of the fault xid") != std::string::npos, said);
  CHECK_MESSAGE(said.find("wf.toml:4:") != std::string::npos, said);
}

TEST_CASE("faults of a workflow: what the site has a command for can be asked of it") {
  FaultCommands site;
  site.cut_network = "/site/cut {host} {seconds}";
  Diagnostics diagnostics;
  const std::string text =
      "[faults]\nat = [ { name = \"cut_network\", step = 2 }, { name = \"slurmctld_down\", step = 2 } ]\n";
  faults_of(text, diagnostics, "command", site);
  REQUIRE(diagnostics.size() == 1);
  CHECK(diagnostics.errors().front().message().find("slurmctld_down needs a command of the site") != std::string::npos);
  FaultSettings settings;
  settings.allowed = true, settings.commands = site;
  CHECK(*faults_from_value(faults_to_value(settings)) == settings);
  CHECK(fault_command_arguments(site.cut_network, "n2", {2.5}) == std::vector<std::string>{"/site/cut", "n2", "2.5"});
  CHECK(fault_command_arguments("  a  b={host},{host} ", "n2", {5}) == std::vector<std::string>{"a", "b=n2,n2"});
}

TEST_CASE("faults of a site: an unknown placeholder, and a command that does not hear whom or how long, are wrong") {
  const auto problems = [](const std::string& text) {
    const auto table = parse_toml(text, "site.toml");
    REQUIRE(table.ok());
    Diagnostics diagnostics;
    check_fault_commands(fault_commands_fields().parse(*table, "site.faults", diagnostics), *table, diagnostics);
    return diagnostics.render("");
  };
  CHECK(problems("cut_network = \"cut {host} {seconds}\"\nslurmctld_down = \"down {seconds}\"\n").find(" error: ") ==
        std::string::npos);
  const std::string said = problems("cut_network = \"cut {node}\"\nslurmctld_down = \"down\"\n");
  for (const char* part : {"site.toml:1:15: error: faults.cut_network names {node}; placeholders: {host}, {seconds}",
                           "faults.cut_network does not say for how long", "faults.cut_network does not say whom",
                           "site.toml:2:18: error: faults.slurmctld_down does not say for how long"})
    CHECK_MESSAGE(said.find(part) != std::string::npos, part, "\n", said);
}

TEST_CASE("faults of a workflow: what is said to a Python program is for a command stage") {
  const std::string text =
      "[faults]\nat = [ { name = \"LOCK_GIL\", step = 2 }, { name = \"SIGNAL_EXC\", step = 2 } ]\n";
  Diagnostics of_engine, of_command;
  faults_of(text, of_engine);
  CHECK(of_engine.size() == 2);
  CHECK(of_engine.render("").find("LOCK_GIL needs a Python program, and there is none in a pretrain stage") !=
        std::string::npos);
  faults_of(text, of_command, "command");
  CHECK_MESSAGE(of_command.empty(), of_command.render(""));
}

}  // namespace longhaul
