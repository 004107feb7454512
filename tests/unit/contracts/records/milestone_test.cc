#include "contracts/records/milestone.h"

#include <doctest/doctest.h>

#include "base/files/files.h"
#include "contracts/records/launch.h"
#include "contracts/tasks/task.h"
#include "tests/support/scratch.h"

using namespace longhaul;

namespace {
Value milestone_settings(std::int64_t every, std::int64_t steps) {
  Value settings = Value::make_table();
  settings.set(milestone_setting, static_cast<long long>(every));
  settings.set("steps", static_cast<long long>(steps));
  return settings;
}
}  // namespace

TEST_CASE("milestones lie at every multiple below the last step, which is the artifact's") {
  using Steps = std::vector<std::int64_t>;
  CHECK(milestone_steps(milestone_settings(20, 70)) == Steps{20, 40, 60});
  CHECK(milestone_steps(milestone_settings(20, 60)) == Steps{20, 40});
  CHECK(milestone_steps(milestone_settings(20, 20)).empty());
  CHECK(milestone_steps(milestone_settings(0, 100)).empty());
  CHECK(milestone_steps(milestone_settings(10, 0)).empty());  // steps that follow from epochs
  CHECK(milestone_steps(milestone_settings(1, milestones_max + 1)).size() == milestones_max);
  CHECK(milestone_steps(milestone_settings(1, milestones_max + 2)).empty());
  CHECK(milestone_steps(Value::make_table()).empty());
}

TEST_CASE("a milestone's key follows from its stage's key and its step; the setting is no part of the stage's") {
  CHECK(milestone_key("a", 5) == milestone_key("a", 5));
  CHECK(milestone_key("a", 5) != milestone_key("a", 6));
  CHECK(milestone_key("a", 5) != milestone_key("b", 5));
  CHECK(milestone_key("a", 5) != "a");
  Task task;
  task.kind = "pretrain";
  task.settings = milestone_settings(0, 100);
  const std::string key = task_key(task);
  task.settings = milestone_settings(10, 100);
  CHECK(task_key(task) == key);
  task.settings = milestone_settings(10, 101);
  CHECK(task_key(task) != key);
}

TEST_CASE("published milestones are the folders named by a step; what is half written is none") {
  const testing::Scratch scratch;
  const std::string folder = join_path(scratch.path(), "milestones");
  CHECK(published_milestones(folder).empty());
  for (const char* name : {"100", "20", ".30.key", "x", "40x", "-5", "0"})
    REQUIRE(make_directories(join_path(folder, name)).ok());
  CHECK(published_milestones(folder) == std::vector<std::int64_t>{20, 100});
  CHECK(milestone_folder(folder, 20) == folder + "/20");
}

TEST_CASE("a launch says where milestones go") {
  Launch launch;
  launch.milestones_dir = "/run/stages/a/milestones";
  CHECK(launch_from_value(launch_to_value(launch))->milestones_dir == launch.milestones_dir);
}
