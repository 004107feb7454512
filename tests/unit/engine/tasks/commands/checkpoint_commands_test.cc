#include "engine/tasks/commands/checkpoint_commands.h"

#include <doctest/doctest.h>

#include "engine/tasks/commands/command_line.h"
#include "tests/unit/engine/checkpoint/checkpoint_tests.h"

using namespace longhaul;

TEST_CASE("commands on a checkpoint: what they refuse, and that damage is an exit code of its own") {
  const test::CheckpointFolder folder;
  const SystemClock clock;
  test::TrainingSetup setup(8, 20);
  test::train(setup, 1);
  const CheckpointStore store(clock, folder.path, 1);
  REQUIRE(store.save(setup.mesh.world(), test::state_of(setup.trainer)).ok());

  const auto run = run_checkpoint_command;
  CHECK(run("inspect", {folder.path}).ok());
  CHECK(run("inspect", {folder.path + "/step-00000001", "--json"}).ok());
  CHECK(run("verify", {folder.path, "--threads", "2"}).ok());
  CHECK(run("reshard", {folder.path, "--output", folder.path + "/as-two", "--parallel", "tp=2"}).ok());
  CHECK(run("verify", {folder.path + "/as-two"}).ok());
  CHECK(run("export", {folder.path, "--output", folder.path + "/model", "--dtype", "bf16"}).ok());

  const auto refused = [&](const char* command, std::vector<std::string> arguments, const std::string& says) {
    const Status status = run(command, arguments);
    REQUIRE_FALSE(status.ok());
    CHECK(status.error().code == ErrorCode::invalid_input);
    CHECK(status.error().message().find(says) != std::string::npos);
  };
  refused("inspect", {}, "CHECKPOINT is missing");
  refused("verify", {folder.path, "--thread", "2"}, "--thread");
  refused("verify", {folder.path, "--threads"}, "needs a value");
  refused("reshard", {folder.path, "--parallel", "tp=2"}, "--output");
  refused("reshard", {folder.path, "--output", folder.path + "/x", "--parallel", "tp=3"}, "num_attention_heads");
  refused("reshard", {folder.path, "--output", folder.path + "/x", "--parallel", "tq=2"}, "tq");
  refused("export", {folder.path, "--output", folder.path + "/x", "--dtype", "f64"}, "f64");
  CHECK_FALSE(file_exists(folder.path + "/x"));
  CHECK(run("export", {folder.path, "--output", folder.path + "/model"}).error().code == ErrorCode::conflict);

  const std::string shard = folder.path + "/step-00000001/shard-00001-of-00001.safetensors";
  REQUIRE(write_file_atomic(shard, read_file(shard)->substr(0, 5000)).ok());
  const Status damaged = run("verify", {folder.path});
  CHECK(engine_exit_code(damaged.error().code) == 10);
  CHECK(damaged.error().message().find(shard) != std::string::npos);
  CHECK(run("inspect", {"/nowhere"}).error().code == ErrorCode::not_found);
}
