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
