// What counts as progress, for the controller, the lead and the simulator alike.
#include "resiliency/saved_progress.h"

#include <doctest/doctest.h>

using namespace longhaul;

TEST_CASE("progress is a whole checkpoint of a greater step than ever before") {
  SavedProgress saved;
  CHECK(saved.newest() == no_saved_step);
  CHECK(saved.saw(0));
  CHECK_FALSE(saved.saw(0));
  CHECK(saved.saw(100));
  CHECK_FALSE(saved.saw(60));
  CHECK(saved.newest() == 100);
  saved.rule_out_after(40);
  CHECK(saved.newest() == 40);
  CHECK(saved.furthest() == 100);
  CHECK_FALSE(saved.saw(100));  // as far as it had been
  CHECK(saved.newest() == 100);
  CHECK(saved.saw(101));
  CHECK_FALSE(SavedProgress(500).saw(500));
}

TEST_CASE("a job got further by its checkpoints; only a foreign program that reports none by its files") {
  struct Case {
    const char* what;
    SavedState now, before;
    bool progress;
  };
  const Case cases[] = {
      {"nothing at all", {}, {}, false},
      {"the first checkpoint", {.step = 10}, {}, true},
      {"the same one", {.step = 10}, {.step = 10}, false},
      {"an earlier one", {.step = 5}, {.step = 10}, false},
      {"it is gone", {}, {.step = 10}, false},
      {"further", {.step = 11}, {.step = 10}, true},
      {"files beside checkpoints do not count", {.step = 10, .contents = "b"}, {.step = 10, .contents = "a"}, false},
      {"other files", {.contents = "b"}, {.contents = "a"}, true},
      {"the same files", {.contents = "a"}, {.contents = "a"}, false},
      {"no files", {}, {.contents = "a"}, false},
      {"other files, and further", {.contents = "b", .reached = 5}, {.contents = "a", .reached = 4}, true},
      {"other files, and no further", {.contents = "b", .reached = 4}, {.contents = "a", .reached = 4}, false},
  };
  for (const Case& c : cases) {
    CAPTURE(c.what);
    CHECK(made_progress(c.now, c.before) == c.progress);
  }
}
