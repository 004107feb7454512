#include "worker/lead/monitor/interval_watch.h"

#include <doctest/doctest.h>

#include <cmath>

#include "contracts/events/fault_event.h"
#include "contracts/events/roll_back_event.h"
#include "tests/unit/worker/reported_event.h"

using namespace longhaul;

TEST_CASE(
    "interval watch: nothing is ordered before a save was measured, and then Daly's interval of what was measured") {
  IntervalWatch watch(100);
  std::int64_t now_ms = 0, step = 0;
  for (; now_ms < 600'000; now_ms += 10'000, step += 5) CHECK(!watch.look(now_ms, step, {}));  // steps of 2 s
  const auto steps = watch.look(now_ms, step, {saved_event(20, 30)});
  REQUIRE(steps);
  CHECK(watch.chooser().step_s() > 1.5);
  const double wanted = daly_interval_s(20, watch.chooser().mtbf_s()) / watch.chooser().step_s();
  CHECK(std::fabs(static_cast<double>(*steps) - wanted) <= 0.2 * wanted);  // nearer is not worth a change
  CHECK(!watch.look(now_ms + 10'000, step + 5, {}));                       // ordered once
}

TEST_CASE("interval watch: many failures make it shorter, and the time of a fault is no time of steps") {
  IntervalWatch watch(10);
  std::int64_t now_ms = 0, step = 0;
  for (; step < 500; now_ms += 10'000, step += 10) (void)watch.look(now_ms, step, {});  // steps of 1 s
  const auto calm = watch.look(now_ms, step, {saved_event(5, 5)});
  REQUIRE(calm);
  std::optional<std::int64_t> newest = calm;
  for (int failure = 0; failure < 30; ++failure) {
    now_ms += 300'000;  // of which the training stood still for most
    if (const auto reported = watch.look(now_ms, step, {reported_event(fault_event_kind), reported_event("launched")}))
      newest = reported;
    now_ms += 10'000, step += 10;
    if (const auto reported = watch.look(now_ms, step, {})) newest = reported;
  }
  CHECK(*newest < *calm / 2);
  CHECK(std::fabs(watch.chooser().step_s() - 1) < 0.05);
}

TEST_CASE("interval watch: a step that was left out is no failure, for no checkpoint would have helped") {
  IntervalWatch watch(10);
  std::int64_t now_ms = 0, step = 0;
  for (; step < 500; now_ms += 10'000, step += 10) (void)watch.look(now_ms, step, {});
  REQUIRE(watch.look(now_ms, step, {saved_event(5, 5)}));
  const double before_s = watch.chooser().mtbf_s();
  const Event skipped = reported_event(fault_event_kind, {{"tier", "skip"}});
  for (int i = 0; i < 30; ++i) CHECK(!watch.look(now_ms += 10'000, step += 10, {skipped}));
  CHECK(watch.chooser().mtbf_s() >= before_s);
}

TEST_CASE("interval watch: a roll-back is a failure, for it loses what was done since the last checkpoint") {
  IntervalWatch watch(10);
  std::int64_t now_ms = 0, step = 0;
  for (; step < 500; now_ms += 10'000, step += 10) (void)watch.look(now_ms, step, {});
  REQUIRE(watch.look(now_ms, step, {saved_event(5, 5)}));
  const double before_s = watch.chooser().mtbf_s();
  Event back = reported_event(fault_event_kind);
  back.fields.set("tier", "skip"), back.fields.set(roll_back_to_step_key, 480);
  (void)watch.look(now_ms += 10'000, step - 20, {back});
  CHECK(watch.chooser().mtbf_s() < before_s);
}

TEST_CASE("interval watch: a launch that begins again at an earlier step counts no steps backwards") {
  IntervalWatch watch(1);
  (void)watch.look(0, 100, {saved_event(1, 1)});
  (void)watch.look(10'000, 60, {});
  (void)watch.look(20'000, 70, {});
  CHECK(watch.chooser().step_s() > 0.9);
  CHECK(watch.chooser().step_s() < 1.1);
}

TEST_CASE("interval watch: a training that saves at its end alone is given an interval once its steps were timed") {
  IntervalWatch watch(100, false);
  CHECK(!watch.look(0, 0, {}));
  std::optional<std::int64_t> reported;
  for (int i = 1; i <= 10 && !reported; ++i) reported = watch.look(i * 10'000, i, {});  // steps of 10 s
  REQUIRE(reported);
  const double wanted = daly_interval_s(watch.chooser().stall_s(), watch.chooser().mtbf_s()) / watch.chooser().step_s();
  CHECK(std::fabs(static_cast<double>(*reported) - wanted) <= 0.25 * wanted);
}
