#include "resiliency/stage_timeouts.h"

#include <doctest/doctest.h>

using namespace longhaul;

TEST_CASE("a stage's resiliency table as the detectors take it; what cannot be kept is refused") {
  ResiliencySettings settings;
  CHECK(judge_timeouts(settings).empty());
  settings.no_progress = Seconds{90};
  CHECK(step_stall_of(settings).act_s == 90);
  CHECK(step_stall_of(settings).startup_s == settings.startup.value);
  CHECK(judge_timeouts(settings).empty());
  settings.on_straggler = "swap";
  settings.hang_suspect = Seconds{100}, settings.hang_act = Seconds{200};
  const std::vector<Error> errors = judge_timeouts(settings);
  REQUIRE(errors.size() == 2);
  CHECK(errors[0].what == "on_straggler = \"swap\" without a spare");
  CHECK(errors[1].what == "no_progress (90 s) is shorter than hang_suspect (100 s)");
  settings.spares = 1, settings.no_progress = Seconds{0};
  CHECK(judge_timeouts(settings).empty());
}

TEST_CASE("a stage's part of the hierarchy of timeouts: what is set, and whose collectives have a deadline") {
  ResiliencySettings settings;
  const TimeoutHierarchy usual = hierarchy_of(settings, "pretrain");
  CHECK(judge_timeouts(usual).empty());
  CHECK(usual.act.seconds == 45);
  CHECK(usual.act.setting == "resiliency.hang_floor");
  CHECK(usual.collective.seconds == 600);
  CHECK(usual.startup_is_default);
  settings.hang_act = Seconds{700}, settings.startup = Seconds{100};
  const TimeoutHierarchy set = hierarchy_of(settings, "command");
  CHECK(set.act.seconds == 700);
  CHECK(set.act.setting == "resiliency.hang_act");
  CHECK(set.collective.seconds == 0);
  CHECK(!set.startup_is_default);
  CHECK(judge_timeouts(set).size() == 1);
  CHECK(judge_timeouts(hierarchy_of(settings, "pretrain")).size() == 3);
}

TEST_CASE("stopping a launch takes the grace, and what srun needs to end its tasks by force") {
  CHECK(stopping_s(7, {}, {}) == 7);
  CHECK(stopping_s(7, {"mpirun"}, {}) == 7);
  CHECK(stopping_s(7, {"/usr/bin/srun", "--nodes=2"}, {}) == 7 + srun_ends_tasks_s);
  JobStep here, by_srun;
  by_srun.launcher = {"srun"};
  CHECK(stopping_s(7, {}, {here}) == 7);
  CHECK(stopping_s(7, {}, {here, by_srun}) == 7 + srun_ends_tasks_s);
}
