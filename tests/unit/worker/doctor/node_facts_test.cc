// From what processes of nodes saw to facts.
#include "worker/doctor/node_facts.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "base/files/files.h"
#include "base/value/json.h"
#include "tests/support/scratch.h"
#include "worker/doctor/node_look.h"

using namespace longhaul;

namespace {

DoctorOrder usual_order() {
  DoctorOrder order;
  order.nodes = 2, order.ranks = 8, order.gpus_per_node = 4;
  order.mpi = "pmix", order.ports = "60001-63000";
  order.agent_launcher = {"srun"};
  return order;
}

Value json(const std::string& text) {
  auto value = parse_json(text);
  REQUIRE_MESSAGE(value.ok(), (value.ok() ? "" : value.error().message()));
  return *value;
}

Value agent(int self, const std::string& gpus = "4", const std::string& more = "") {
  const std::string other = std::to_string(1 - self);
  return json(R"({"place":{"nvml":)" + gpus +
              R"(},"node":{"arch":"x86_64","cpus":64,"threads_per_core":2,"memory":549755813888,"memory_limit":-1,)"
              R"("shm":1073741824},"pair":{"met":true,"seen_after_s":0.5,"rounds":200,"exclusive":100,"linked":100,)"
              R"("torn":0,"file_clock_off_ms":)" +
              std::to_string(self * 40) + R"(,"modes":[{"of":0,"mode":"0600","ok":true}],"connects":[{"to":)" + other +
              R"(,"host":"n2","how":"name","ok":true}])" + more + "}}");
}

Value rank(int number, const std::string& by = "PMIX_RANK", const std::string& gpus = "4") {
  return json(R"({"place":{"rank":")" + std::to_string(number) + R"(","rank_by":")" + by + R"(","nvml":)" + gpus +
              "}}");
}

DoctorSights good_sights() {
  DoctorSights sights;
  sights.agents = {agent(0), agent(1)};
  for (int i = 0; i < 8; ++i) sights.ranks.push_back(rank(i));
  sights.ranks_done = sights.beside = sights.agent_killed = true;
  sights.stood = 1, sights.again_s = 0.4;
  sights.ports = "60001-63000";
  return sights;
}

DoctorFact fact(const DoctorSights& sights, const std::string& name, const DoctorOrder& order = usual_order()) {
  const auto facts = facts_of_nodes(order, sights);
  const auto found = std::find_if(facts.begin(), facts.end(), [&](const DoctorFact& one) { return one.name == name; });
  REQUIRE_MESSAGE(found != facts.end(), name);
  return *found;
}

}  // namespace

TEST_CASE("node facts: two nodes where all is well") {
  const DoctorSights sights = good_sights();
  for (const char* name : {"agents_beside_ranks", "killed_agent", "mpi_starts_ranks", "ports_both_ways",
                           "exclusive_create", "exclusive_link", "whole_renames", "modes_survive"})
    CHECK_MESSAGE(fact(sights, name).answer == "yes", name);
  CHECK(fact(sights, "mpi_starts_ranks").key == "launcher.mpi");
  CHECK(fact(sights, "mpi_starts_ranks").value == Value("pmix"));
  CHECK(fact(sights, "ports_both_ways").key == "network.ports");
  CHECK(fact(sights, "gpus_seen_by_agents").answer == "4");
  CHECK(fact(sights, "clock_skew").answer == "40 ms");
  CHECK(fact(sights, "arch").key == "node.arch");
}

TEST_CASE("node facts: what is not as it should be says so, and verifies nothing") {
  DoctorSights no_gpus = good_sights();
  no_gpus.agents = {agent(0, "0"), agent(1)};
  CHECK(fact(no_gpus, "gpus_seen_by_agents").answer == "0");
  CHECK(fact(no_gpus, "gpus_seen_by_ranks").answer == "4");

  CHECK(gpus_seen(json(R"({"nvml":-1,"devices":0,"named":-1})")) == 0);
  CHECK(gpus_seen(json(R"({"nvml":-1,"devices":0,"named":2})")) == 2);
  CHECK(gpus_seen(json(R"({"nvml":4,"devices":2,"named":2})")) == 4);

  DoctorSights fell_together = good_sights();
  fell_together.stood = 0;
  CHECK(fact(fell_together, "killed_agent").answer == "no");
  CHECK(fact(fell_together, "killed_agent").detail.find("0 of the 1 other went on") != std::string::npos);
  DoctorSights for_good = good_sights();
  for_good.again_s = -1, for_good.again_said = "srun: error: Unable to create step";
  CHECK(fact(for_good, "killed_agent").answer == "no");
  CHECK(fact(for_good, "killed_agent").detail.find("Unable to create step") != std::string::npos);
  DoctorSights unkilled = good_sights();
  unkilled.agent_killed = false;
  CHECK(fact(unkilled, "killed_agent").answer == "unknown");

  DoctorSights singletons = good_sights();
  singletons.ranks.clear();
  for (int i = 0; i < 8; ++i) singletons.ranks.push_back(rank(i, "SLURM_PROCID"));
  CHECK(fact(singletons, "mpi_starts_ranks").answer == "no");
  CHECK(fact(singletons, "mpi_starts_ranks").key.empty());
  DoctorOrder without_mpi = usual_order();
  without_mpi.mpi = "none";
  CHECK(fact(singletons, "mpi_starts_ranks", without_mpi).answer == "yes");

  DoctorSights one_lacks = good_sights();
  one_lacks.ranks.pop_back();
  one_lacks.ranks_said = "srun: error: task 7 failed";
  CHECK(fact(one_lacks, "mpi_starts_ranks").detail.find("7 of 8 ranks came: srun: error") != std::string::npos);

  DoctorSights after = good_sights();
  after.beside = false;
  CHECK(fact(after, "agents_beside_ranks").answer == "no");

  DoctorSights shut = good_sights();
  shut.agents[0].find("pair")->find("connects")->as_array()[0].set("ok", false);
  shut.agents[0].find("pair")->find("connects")->as_array()[0].set("why", "no answer within 5 s");
  CHECK(fact(shut, "ports_both_ways").answer == "no");
  CHECK(fact(shut, "ports_both_ways").key.empty());
  CHECK(fact(shut, "ports_both_ways").detail.find("no answer within 5 s") != std::string::npos);

  DoctorSights twice = good_sights();
  twice.agents[0].find("pair")->set("exclusive", 150);
  CHECK(fact(twice, "exclusive_create").answer == "no");

  DoctorSights alone = good_sights();
  alone.agents.pop_back();
  CHECK(fact(alone, "agents_beside_ranks").answer == "no");
  DoctorSights nobody;
  CHECK(fact(nobody, "shared_files").answer == "unknown");
}

TEST_CASE("node facts: which CPUs are beside which GPU, and whether the launcher binds ranks to them") {
  const auto with_gpus = [](Value sight, const std::string& cpus, int local_rank,
                            const std::vector<std::string>& near) {
    Value* place = sight.find("place");
    place->set("cpus", cpus), place->set("local_rank", local_rank);
    Value places = Value::make_array();
    for (const std::string& one : near) {
      Value gpu = Value::make_table();
      gpu.set("address", "0000:07:00.0"), gpu.set("cpus", one);
      places.push_back(std::move(gpu));
    }
    place->set("gpu_places", std::move(places));
    return sight;
  };
  // As on Perlmutter: the first GPU is beside the last CPUs. Ranks are bound in blocks.
  const std::vector<std::string> near = {"48-63", "32-47", "16-31", "0-15"};
  const std::vector<std::string> blocks = {"0-15", "16-31", "32-47", "48-63"};
  DoctorSights sights = good_sights();
  for (Value& agent : sights.agents) agent = with_gpus(std::move(agent), "0", 0, near);
  for (int i = 0; i < 8; ++i) sights.ranks[i] = with_gpus(rank(i), blocks[i % 4], i % 4, near);
  CHECK(fact(sights, "cpus_beside_gpus").answer == "48-63 32-47 16-31 0-15");
  CHECK(fact(sights, "cpus_beside_gpus").key == "facts.gpu_cpus");
  CHECK(fact(sights, "cpus_beside_gpus").value == json(R"(["48-63","32-47","16-31","0-15"])"));
  CHECK(fact(sights, "ranks_beside_gpus").answer == "no");
  CHECK(fact(sights, "ranks_beside_gpus").key == "facts.gpus_bound");
  CHECK(fact(sights, "ranks_beside_gpus").detail.find("binds 0 of 8 ranks") != std::string::npos);
  // Bound each beside its own; and with one GPU visible to each.
  for (int i = 0; i < 8; ++i) sights.ranks[i] = with_gpus(rank(i), near[i % 4], i % 4, near);
  CHECK(fact(sights, "ranks_beside_gpus").answer == "yes");
  for (int i = 0; i < 8; ++i) sights.ranks[i] = with_gpus(rank(i), near[i % 4], i % 4, {near[i % 4]});
  CHECK(fact(sights, "ranks_beside_gpus").answer == "yes");
  CHECK(fact(sights, "ranks_beside_gpus").value == Value("yes"));
  sights.ranks[5] = with_gpus(rank(5), "0-63", 1, {near[1]});  // one is not bound at all
  CHECK(fact(sights, "ranks_beside_gpus").answer == "no");
  // Nodes that are not alike; agents that see none; a kernel that does not say it; no driver; no GPUs.
  sights.agents[1] = with_gpus(agent(1), "0", 0, blocks);
  CHECK(fact(sights, "cpus_beside_gpus").answer == "differs");
  CHECK(fact(sights, "cpus_beside_gpus").key.empty());
  sights.agents[1] = with_gpus(agent(1), "0", 0, {});
  CHECK(fact(sights, "cpus_beside_gpus").answer == "48-63 32-47 16-31 0-15");
  for (Value& agent : sights.agents) agent = with_gpus(std::move(agent), "0", 0, {"", "", "", ""});
  CHECK(fact(sights, "cpus_beside_gpus").answer == "unknown");
  CHECK(fact(good_sights(), "cpus_beside_gpus").answer == "unknown");
  CHECK(fact(good_sights(), "ranks_beside_gpus").answer == "unknown");
  CHECK(fact(good_sights(), "ranks_beside_gpus").key.empty());
  DoctorOrder without = usual_order();
  without.gpus_per_node = 0;
  CHECK(fact(sights, "ranks_beside_gpus", without).answer == "none");
}

TEST_CASE("node look: a process says which CPUs are beside the GPUs that it sees, and on which it may run") {
  testing::Scratch root;
  const auto gpu = [&](const std::string& address, int minor, const std::string& cpus) {
    const std::string driver = root.file("proc/driver/nvidia/gpus/" + address);
    const std::string bus = root.file("sys/bus/pci/devices/" + address);
    for (const std::string& folder : {driver, bus, root.file("dev")}) REQUIRE(make_directories(folder).ok());
    REQUIRE(write_file_atomic(driver + "/information", format("Device Minor: \t {}\n", minor)).ok());
    REQUIRE(write_file_atomic(bus + "/local_cpulist", cpus + "\n").ok());
    REQUIRE(write_file_atomic(root.file(format("dev/nvidia{}", minor)), "").ok());
  };
  gpu("0000:c1:00.0", 1, "0-15");
  gpu("0000:07:00.0", 0, "16-31");
  std::map<std::string, std::string> variables = {{"SLURM_STEP_TASKS_PER_NODE", "2"}, {"SLURM_LOCALID", "1"}};
  const Variable variable = [&](const char* name) { return variables[name]; };
  const Value both = look_at_place(variable, root.path());
  REQUIRE(both.find("gpu_places")->as_array().size() == 2);
  CHECK(both.find("gpu_places")->as_array()[0].get_string("cpus") == "16-31");
  CHECK(both.find("gpu_places")->as_array()[1].get_string("address") == "0000:c1:00.0");
  CHECK(both.get_integer("local_rank") == 1);
  CHECK_FALSE(both.get_string("cpus").empty());
  variables["CUDA_VISIBLE_DEVICES"] = "1";
  const Value one = look_at_place(variable, root.path());
  REQUIRE(one.find("gpu_places")->as_array().size() == 1);
  CHECK(one.find("gpu_places")->as_array()[0].get_string("cpus") == "0-15");
}

TEST_CASE("node facts: processors of a list, and the tightest limit of the cgroups above") {
  CHECK(count_of_list("0-3,8\n") == 5);
  CHECK(count_of_list("7") == 1);
  CHECK(count_of_list("") == 0);
  testing::Scratch scratch;
  const std::string root = scratch.path();
  REQUIRE(make_directories(root + "/slurm/job_7/step_0").ok());
  const auto limit = [&](const std::string& folder, const std::string& text) {
    REQUIRE(write_file_atomic(root + folder + "/memory.max", text).ok());
  };
  CHECK(memory_limit("0::/slurm/job_7/step_0\n", root) == -1);
  limit("/slurm/job_7/step_0", "max\n");
  limit("/slurm/job_7", "1048576\n");
  limit("/slurm", "9048576\n");
  CHECK(memory_limit("0::/slurm/job_7/step_0\n", root) == 1048576);
  CHECK(memory_limit("0::/\n", root) == -1);
  REQUIRE(make_directories(root + "/memory/job").ok());
  REQUIRE(write_file_atomic(root + "/memory/job/memory.limit_in_bytes", "4096\n").ok());
  CHECK(memory_limit("3:cpu:/job\n5:memory:/job\n", root) == 4096);
}
