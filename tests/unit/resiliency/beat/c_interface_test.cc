#include <doctest/doctest.h>

#include "base/files/files.h"
#include "base/process/process.h"
#include "base/system/clock.h"
#include "resiliency/beat/heartbeat_page.h"
#include "tests/support/scratch.h"

using namespace longhaul;

TEST_CASE("a rank written in C says what it does and carries out what is ordered") {
  const longhaul::testing::Scratch folder;
  SpawnSpec spec;
  spec.argv = {parent_path(own_program_path()) + "/beat_c_program", folder.file("page")};
  const auto pid = spawn(spec);
  REQUIRE(pid.ok());
  SystemClock clock;
  const Deadline deadline(clock, 10'000);
  auto page = HeartbeatPage::open(folder.file("page"));
  for (; !page.ok() || page->snapshot().step != 8; page = HeartbeatPage::open(folder.file("page"))) {
    REQUIRE(!deadline.passed());
    clock.sleep_ms(1);
  }
  const BeatSnapshot seen = page->snapshot();
  CHECK(seen.rank == 5);
  CHECK(seen.pid == *pid);
  CHECK(seen.epoch == 2);
  CHECK(seen.section == "forward");
  REQUIRE(seen.communicators.size() == 1);
  CHECK(seen.communicators[0].enqueued == 1);
  CHECK(seen.communicators[0].completed == 1);
  page->order_checkpoint();
  page->order_checkpoint_interval(20);
  page->order_learning_rate(0.5);
  CHECK(page->orders_obeyed() == 0);
  page->order_stop_after(9);
  auto exit = poll_exit(*pid);
  for (; exit.ok() && !exit->has_value(); exit = poll_exit(*pid)) {
    REQUIRE(!deadline.passed());
    clock.sleep_ms(1);
  }
  REQUIRE(exit.ok());
  CHECK((*exit)->success());
  CHECK(page->orders_obeyed() == 4);
}
