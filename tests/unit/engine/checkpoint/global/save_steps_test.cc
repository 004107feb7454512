// The table of a save's steps, which docs/figures/checkpoint.svg draws, against what a save leaves on the disk.
#include <doctest/doctest.h>

#include <csignal>

#include "base/process/fault_point.h"
#include "base/value/json.h"
#include "contracts/checkpoints/checkpoint_files.h"
#include "tests/unit/engine/checkpoint/checkpoint_tests.h"

namespace longhaul::test {
namespace {

// Killed there, so many steps of the table have been taken.
struct Cut {
  const char* point;
  std::size_t steps;
};
constexpr Cut cuts[] = {{"checkpoint_after_votes", 3},
                        {"checkpoint_before_manifest", 4},
                        {"checkpoint_after_manifest", 5},
                        {"checkpoint_after_latest", 6},
                        {"checkpoint_retiring", 8}};

// Of the files that the table names, those that the save of step 2 has made.
std::vector<std::string> files_made(const std::string& folder) {
  const std::string saved = join_path(folder, checkpoint_folder_name(2));
  const auto latest = read_file(join_path(folder, checkpoint_latest_name));
  std::vector<std::string> made;
  for (const SaveStep& step : checkpoint_save_steps()) {
    const std::string file = step.file;
    if (file.empty()) continue;
    const bool there = file == checkpoint_latest_name
                           ? latest.ok() && parse_json(*latest)->get_integer("step") == 2
                           : file_exists(join_path(saved, file == "shard" ? shard_file_name(0, 1) : file));
    if (there) made.push_back(file);
  }
  return made;
}

std::vector<std::string> files_until(std::size_t steps) {
  std::vector<std::string> files;
  for (const SaveStep& step : checkpoint_save_steps().first(steps))
    if (*step.file) files.emplace_back(step.file);
  return files;
}

}  // namespace

TEST_CASE("the files of a save appear in the order of the table of its steps") {
  const std::size_t all = checkpoint_save_steps().size();
  for (const Cut& cut : cuts) {
    CAPTURE(std::string(cut.point));
    CheckpointFolder folder;
    const SystemClock clock;
    const CheckpointStore checkpoints(clock, folder.path + "/checkpoints", 1);
    TrainingSetup setup(8, 20);
    train(setup, 1);
    REQUIRE(checkpoints.save(setup.mesh.world(), state_of(setup.trainer)).ok());
    train(setup, 1);
    const std::string plan = folder.path + "/plan";
    REQUIRE(write_file_atomic(plan, std::string(cut.point) + " kill\n").ok());
    const int exit = in_child([&] {
      if (load_fault_plan(plan).ok()) [[maybe_unused]]
        const auto saved = checkpoints.save(setup.mesh.world(), state_of(setup.trainer));
    });
    CHECK(exit == -SIGKILL);
    CHECK(files_made(checkpoints.folder()) == files_until(cut.steps));
    CHECK(file_exists(join_path(checkpoints.folder(), checkpoint_folder_name(1))));  // nothing was removed before

    REQUIRE(checkpoints.save(setup.mesh.world(), state_of(setup.trainer)).ok());
    CHECK(files_made(checkpoints.folder()) == files_until(all));
    CHECK_FALSE(file_exists(join_path(checkpoints.folder(), checkpoint_folder_name(1))));
    // And no others: what the table does not name is not there.
    CHECK(list_tree(join_path(checkpoints.folder(), checkpoint_folder_name(2)))->size() + 1 == files_until(all).size());
  }
}

}  // namespace longhaul::test
