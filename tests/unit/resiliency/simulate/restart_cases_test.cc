// The simulator against what live trainings did: each row of tests/cases/restarts.toml is a fault that a live test of
// tests/cluster plays and holds against the same row.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "base/files/files.h"
#include "base/toml.h"
#include "resiliency/simulate/trial.h"
#include "resiliency/taxonomy/fault_table.h"

namespace longhaul {
namespace {

constexpr int save_every = 20;  // steps, as those trainings do
constexpr int victim = 1;

Value restart_cases() {
  const std::string path = LONGHAUL_SOURCE_DIR "/tests/cases/restarts.toml";
  const auto text = read_file(path);
  REQUIRE(text.ok());
  auto document = parse_toml(*text, path);
  REQUIRE_MESSAGE(document.ok(), document.error().message());
  REQUIRE(document->find("case"));
  return *document->find("case");
}

// The training of those tests: a rank for each core of its nodes, steps of 0.05 s, a restart that takes what it was
// measured to take.
Scenario scenario_of(const Value& row, const std::string& fault_class) {
  const Value nothing = Value::make_table();
  const Value* found = row.find("measured");
  const Value& measured = found ? *found : nothing;
  Scenario scenario;
  scenario.cluster.gpus_per_host = 1;
  scenario.cluster.gpus = row.get_integer("nodes", 2);
  scenario.cluster.spares = static_cast<int>(row.get_integer("spares"));
  scenario.training.length = {600};
  scenario.training.step = {measured.get_number("first_step", 0.05)};
  scenario.training.replicas = static_cast<int>(scenario.cluster.gpus);
  scenario.training.restarts = static_cast<int>(row.get_integer("restarts", 3));
  scenario.saves.global.stall = scenario.saves.global.write = {0};
  scenario.saves.global.every_steps = row.get_bool("saves", true) ? save_every : 1'000'000;
  scenario.restart.shrink.offered = row.get_bool("shrink", false);
  scenario.restart.in_process.offered = row.get_bool("in_process", false);
  scenario.saves.memory.enabled = row.get_string("from") == "copy";
  scenario.saves.memory.stall = {0};
  scenario.saves.memory.every_steps = 1;
  for (int level = 0; level < static_cast<int>(RestartTier::stop); ++level) {
    SimTier& tier = scenario.restart.of(static_cast<RestartTier>(level));
    tier.stop = {measured.get_number("stop", 0.1)};
    tier.start = {measured.get_number("start", 0.2)};
    tier.load = {measured.get_number("load", 0.3)};
  }
  SimFault fault;
  fault.name = fault.fault_class = fault_class;
  fault.count = 1;
  if (fault_class == "file_system") fault.scope = fault_class;
  fault.detect = {measured.get_number("detected", 1)};
  fault.lasts = {row.get_number("lasts_s", 0)};
  fault.loses_host = row.get_bool("loses_host", false);
  fault.all_ranks_alive = row.get_bool("all_alive", false);
  fault.skippable = row.get_bool("skippable", false);
  fault.culprit = row.get_bool("culprit", true);
  scenario.faults = {fault};
  return scenario;
}

// The row's fault after those that come before it, each in the midst of an interval between saves.
std::vector<PlayedFault> faults_of(const Value& row) {
  std::vector<PlayedFault> faults;
  for (int number = 0; number <= row.get_integer("before"); ++number)
    faults.push_back({20.52 + 60 * number, 0, victim});
  return faults;
}

bool names(const std::vector<std::string>& hosts, const std::string& host) {
  return std::find(hosts.begin(), hosts.end(), host) != hosts.end();
}

void check_decision(const Value& row, const SimDecision& decided) {
  CAPTURE(decided.reason);
  CHECK(to_string(decided.tier) == row.get_string("tier"));
  CHECK(decided.fault.host == (row.get_string("accused") == "victim" ? sim_host_name(victim) : ""));
  CHECK(names(decided.hosts_left, sim_host_name(victim)) == row.get_bool("leaves", false));
}

// Back to the newest save, to the copy of the step before, or nowhere; and for as long as it was measured live.
void check_way_back(const Value& row, const SimDecision& decided, double step_s) {
  const std::string from = row.get_string("from");
  if (from == "here") CHECK(decided.lost_steps == 0);
  if (from == "copy") CHECK(decided.lost_steps == 0);
  if (from == "checkpoint" && row.get_bool("saves", true)) {
    CHECK(decided.lost_steps < save_every);
    if (row.get_integer("before") == 0) CHECK(decided.lost_steps == 10);  // half an interval
  }
  const Value* measured = row.find("measured");
  if (!measured) return;
  const double again_s = decided.loaded_s + step_s, live_s = measured->get_number("again", 0);
  CAPTURE(again_s);
  CAPTURE(live_s);
  // Medians of parts, and of the whole.
  CHECK(std::fabs(again_s - live_s) <= 0.03 * live_s + 0.06);
}

}  // namespace

TEST_CASE("restart cases: the simulator decides what a live training did after the same fault") {
  const Value rows = restart_cases();
  int played = 0;
  for (const ValueMember& member : rows.as_table()) {
    const Value& row = member.value;
    for (const Value& fault_class : row.find("class")->as_array()) {
      CAPTURE(member.key);
      CAPTURE(fault_class.as_string());
      REQUIRE(to_string(fault_class_of(fault_class.as_string())) == fault_class.as_string());
      const Scenario scenario = scenario_of(row, fault_class.as_string());
      const SimulatedTrial trial = play_faults(scenario, faults_of(row));
      ++played;
      if (row.get_string("tier") == "nothing") {
        CHECK(trial.standstills == 1);
        CHECK(trial.decisions.empty());
        CHECK(trial.lost_steps == 0);
        continue;
      }
      const auto before = static_cast<std::size_t>(row.get_integer("before"));
      REQUIRE(trial.decisions.size() == before + 1);
      for (std::size_t i = 0; i < before; ++i)
        CHECK(to_string(trial.decisions[i].tier) == row.get_string("before_tier"));
      check_decision(row, trial.decisions.back());
      check_way_back(row, trial.decisions.back(), scenario.training.step.value);
    }
  }
  CHECK(played > 25);
}

// Whatever lead, controller and simulator know by the table of faults, each tier has a row that shows it.
TEST_CASE("restart cases: every tier, and every kind of accusation, has a live test") {
  const Value rows = restart_cases();
  std::vector<std::string> tiers;
  std::vector<Accusation> accusations;
  for (const ValueMember& member : rows.as_table()) {
    tiers.push_back(member.value.get_string("tier"));
    for (const Value& fault_class : member.value.find("class")->as_array())
      accusations.push_back(info_of(fault_class_of(fault_class.as_string())).accuses);
  }
  for (int tier = 0; tier < restart_tiers; ++tier) CHECK(names(tiers, to_string(static_cast<RestartTier>(tier))));
  for (const Accusation one : {Accusation::never, Accusation::doubtful, Accusation::sure})
    CHECK(std::find(accusations.begin(), accusations.end(), one) != accusations.end());
}

}  // namespace longhaul
