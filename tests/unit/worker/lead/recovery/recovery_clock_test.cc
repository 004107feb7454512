#include "worker/lead/recovery/recovery_clock.h"

#include <doctest/doctest.h>

using namespace longhaul;

namespace {

std::map<int, RankReport> ranks_at(std::int64_t step, int count = 2) {
  std::map<int, RankReport> ranks;
  for (int rank = 0; rank < count; ++rank) ranks[rank].beat.step = step;
  return ranks;
}

}  // namespace

TEST_CASE("recovery: the parts add up to the time from the fault to the first completed step") {
  RecoveryClock clock;
  CHECK(!clock.look(500, ranks_at(7)));
  clock.fault(1'000, 0.2, 18);  // under way in step 18, silent since 0.8 s
  CHECK(clock.under_way());
  CHECK(!clock.look(1'050, ranks_at(18)));
  clock.stopped(1'300);
  clock.launched(2, 2);
  CHECK(!clock.look(1'900, ranks_at(-1, 1)));
  CHECK(!clock.look(2'100, ranks_at(-1)));  // all ranks are there
  CHECK(!clock.look(2'500, ranks_at(11)));  // loaded: step 11 is begun
  CHECK(!clock.look(2'550, ranks_at(11)));
  const auto event = clock.look(2'700, ranks_at(12));
  REQUIRE(event);
  CHECK(event->launch == 2);
  CHECK(event->detect_s == doctest::Approx(0.2));
  CHECK(event->stop_s == doctest::Approx(0.3));
  CHECK(event->teardown_s == doctest::Approx(0.3));
  CHECK(event->start_s == doctest::Approx(0.8));
  CHECK(event->load_s == doctest::Approx(0.4));
  CHECK(event->first_step_s == doctest::Approx(0.2));
  CHECK(event->total_s == doctest::Approx(1.9));
  CHECK(event->lost_steps == 7);  // 11 to 17 are done again
  CHECK(!clock.under_way());
  CHECK(!clock.look(3'000, ranks_at(13)));
}

TEST_CASE("recovery: steps that ranks end before they follow the order are no recovery") {
  const auto at = [](std::int64_t step, std::int64_t epoch_of_0, std::int64_t epoch_of_1) {
    std::map<int, RankReport> ranks = ranks_at(step);
    ranks[0].beat.epoch = epoch_of_0, ranks[1].beat.epoch = epoch_of_1;
    return ranks;
  };
  RecoveryClock clock;
  clock.fault(1'000, 0, 129);
  clock.stopped(1'000);
  clock.launched(2, 2, 5);
  CHECK(!clock.look(1'100, at(129, 4, 4)));
  CHECK(!clock.look(2'300, at(130, 4, 4)));
  CHECK(!clock.look(3'000, at(131, 5, 4)));  // not all have come
  CHECK(!clock.look(4'000, at(131, 5, 5)));
  const auto event = clock.look(5'000, at(132, 5, 5));
  REQUIRE(event);
  CHECK(event->start_s == doctest::Approx(3));
  CHECK(event->first_step_s == doctest::Approx(1));
}

TEST_CASE("recovery: a second fault on the way back belongs to the same time") {
  RecoveryClock clock;
  clock.fault(1'000, 0, 18);
  clock.stopped(1'100);
  clock.launched(2, 2);
  CHECK(!clock.look(1'500, ranks_at(11)));
  clock.fault(1'600, 0.1, 11);
  clock.stopped(1'700);
  clock.launched(3, 2);
  CHECK(!clock.look(2'000, ranks_at(11)));
  const auto event = clock.look(2'400, ranks_at(12));
  REQUIRE(event);
  CHECK(event->launch == 3);
  CHECK(event->stop_s == doctest::Approx(0.7));
  CHECK(event->teardown_s == doctest::Approx(0.1));  // the launch that failed on the way took none of it
  CHECK(event->total_s == doctest::Approx(1.4));
  CHECK(event->lost_steps == 7);
}

TEST_CASE("recovery: a training that begins anew is loaded once it is in its step 0") {
  RecoveryClock clock;
  clock.fault(1'000, 0, 3);
  clock.stopped(1'000);
  clock.launched(2, 2);
  CHECK(!clock.look(2'000, ranks_at(-1)));
  CHECK(!clock.look(2'500, ranks_at(0)));
  const auto event = clock.look(2'700, ranks_at(1));
  REQUIRE(event);
  CHECK(event->load_s == doctest::Approx(0.5));
  CHECK(event->first_step_s == doctest::Approx(0.2));
  CHECK(event->lost_steps == 3);
}
