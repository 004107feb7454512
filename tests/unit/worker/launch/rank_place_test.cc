// What a rank of a command learns of its place among the others, in the variables that torchrun sets.
#include "worker/launch/rank_place.h"

#include <doctest/doctest.h>

#include <map>

#include "contracts/settings/stages/command.h"
#include "worker/launch/rank_programs.h"

namespace longhaul {
namespace {

using Variables = std::map<std::string, std::string>;

Variables place_of(const Variables& given) {
  Variables place;
  const auto reported = rank_place([&](const char* name) {
    const auto found = given.find(name);
    return found == given.end() ? std::string() : found->second;
  });
  for (const auto& [name, value] : reported) place[name] = value;
  return place;
}

std::vector<RankProgram> programs_of(int ranks, const std::map<std::string, std::string>& environment = {}) {
  LaunchSpec spec;
  spec.attempt.key = "key-1", spec.attempt.stage = "s";
  spec.task.kind = "command";
  CommandSettings settings;
  settings.argv = {"train"}, settings.environment = environment;
  spec.task.settings = command_fields().to_value(settings);
  spec.launch.ranks = ranks, spec.launch.launch_dir = "/run/launches/1", spec.launch.output_dir = "/run/out";
  const auto made = rank_programs(spec);
  REQUIRE(made.ok());
  return *made;
}

// The last one counts, as for a process.
std::string variable_of(const RankProgram& program, const std::string& name) {
  std::string value;
  for (const auto& [key, one] : program.spawn.environment)
    if (key == name) value = one;
  return value;
}

}  // namespace

TEST_CASE("ranks on one machine find each other as under torchrun") {
  const auto programs = programs_of(2);
  REQUIRE(programs.size() == 2);
  for (int rank = 0; rank < 2; ++rank) {
    const RankProgram& program = programs[static_cast<std::size_t>(rank)];
    CHECK(variable_of(program, "RANK") == std::to_string(rank));
    CHECK(variable_of(program, "LOCAL_RANK") == std::to_string(rank));
    CHECK(variable_of(program, "WORLD_SIZE") == "2");
    CHECK(variable_of(program, "LOCAL_WORLD_SIZE") == "2");
    CHECK(variable_of(program, "NODE_RANK") == "0");
    CHECK(variable_of(program, "MASTER_ADDR") == "127.0.0.1");
  }
  const std::string port = variable_of(programs[0], "MASTER_PORT");
  CHECK(port == variable_of(programs[1], "MASTER_PORT"));
  CHECK(std::stoi(port) >= 20'000);
  CHECK(std::stoi(port) < 30'000);
}

TEST_CASE("a command starts where its workflow lies, in its workdir, or where its artifact is made") {
  const auto folder_of = [](const std::string& from, const std::string& workdir) {
    LaunchSpec spec;
    spec.task.kind = "command";
    CommandSettings settings;
    settings.argv = {"train"}, settings.workdir = workdir, settings.workdir_from = from;
    spec.task.settings = command_fields().to_value(settings);
    spec.launch.ranks = 1, spec.launch.launch_dir = "/run/launches/1", spec.launch.output_dir = "/run/out";
    const auto made = rank_programs(spec);
    REQUIRE(made.ok());
    return made->front().spawn.working_directory;
  };
  CHECK(folder_of("/home/me/flow", "") == "/home/me/flow");
  CHECK(folder_of("/home/me/flow", "src") == "/home/me/flow/src");
  CHECK(folder_of("/home/me/flow", "/scratch/me") == "/scratch/me");
  CHECK(folder_of("", "") == "/run/out");  // a task of an earlier version, or a container
}

TEST_CASE("what the stage says of these variables itself stays") {
  const auto programs = programs_of(1, {{"MASTER_PORT", "5"}, {"RANK", "7"}});
  CHECK(variable_of(programs[0], "MASTER_PORT") == "5");
  CHECK(variable_of(programs[0], "RANK") == "7");
}

TEST_CASE("below a launcher a rank's place is the launcher's") {
  CHECK(place_of({{"SLURM_PROCID", "5"},
                  {"SLURM_LOCALID", "1"},
                  {"SLURM_NODEID", "2"},
                  {"SLURM_STEP_TASKS_PER_NODE", "2(x2),4"}}) ==
        Variables{{"RANK", "5"}, {"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "4"}, {"NODE_RANK", "2"}});
  CHECK(place_of({{"SLURM_PROCID", "3"},
                  {"SLURM_LOCALID", "1"},
                  {"SLURM_NODEID", "1"},
                  {"SLURM_STEP_TASKS_PER_NODE", "2(x2)"}})["LOCAL_WORLD_SIZE"] == "2");
  // mpirun inside a job of Slurm: the variables of the batch step are not its ranks'.
  CHECK(place_of({{"OMPI_COMM_WORLD_RANK", "3"},
                  {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                  {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                  {"SLURM_NODEID", "0"},
                  {"SLURM_LOCALID", "0"}}) == Variables{{"RANK", "3"}, {"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "2"}});
  CHECK(place_of({}).empty());
}

}  // namespace longhaul
