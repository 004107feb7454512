// Events of weeks, and a lead that takes over late: what it reads is what is new.
#include "worker/lead/monitor/event_tail.h"

#include <doctest/doctest.h>

#include "base/files/files.h"
#include "base/text/text.h"
#include "tests/support/sanitized.h"
#include "tests/support/scratch.h"
#include "tests/unit/worker/reported_event.h"
#include "worker/lead/monitor/goodput_watch.h"
#include "worker/lead/recovery/event_facts.h"
#include "worker/lead/recovery/skipped_steps.h"

namespace longhaul {
namespace {

// A step a line, a checkpoint every hundred.
std::string lines_of_steps(std::int64_t first, std::int64_t last) {
  std::string text;
  for (std::int64_t step = first; step <= last; ++step) {
    text += event_line(reported_event("metric", {{"step", step}, {"loss", 2.5}, {"grad_norm", 0.5}}));
    if (step % 100 == 0) text += event_line(reported_event("checkpoint", {{"step", step}, {"stall_s", 0.5}}));
  }
  return text;
}

}  // namespace

TEST_CASE("events: a long file comes in pieces, each event once, and a torn end waits") {
  const testing::Scratch scratch;
  const std::string path = scratch.file("events.jsonl"), torn = "{\"kind\":\"metric\",\"st";
  REQUIRE(write_file_atomic(path, lines_of_steps(1, 2'000) + torn).ok());
  std::uint64_t offset = 0;
  std::int64_t steps = 0, pieces = 0;
  for (bool more = true; more; ++pieces) {
    const auto piece = read_event_piece(path, offset, 10'000);
    REQUIRE(piece.ok());
    CHECK(piece->bytes_read < 30'000);
    for (const Event& event : piece->events)
      if (event.kind == "metric") CHECK(event.fields.get_integer("step") == ++steps);
    more = piece->more;
  }
  CHECK(steps == 2'000);
  CHECK(pieces > 10);
  CHECK(offset == read_file(path)->size() - torn.size());
  // A line that is longer than a piece.
  REQUIRE(write_file_atomic(path, event_line(reported_event("message", {{"text", std::string(100'000, 'x')}}))).ok());
  offset = 0;
  const auto one = read_event_piece(path, offset, 4'096);
  REQUIRE(one.ok());
  CHECK(one->events.size() == 1);
}

TEST_CASE("take over late: a lead reads what its standby was not sent, and knows the same as one that read all") {
  const testing::Scratch scratch;
  const std::string path = scratch.file("events.jsonl");
  ManualClock clock;
  constexpr std::int64_t steps_of_weeks = testing::sanitized ? 5'000 : 50'000;
  REQUIRE(write_file_atomic(path, lines_of_steps(1, steps_of_weeks)).ok());
  // The lead that has read them, and says where it stands.
  EventFacts first;
  EventTail tail(clock);
  tail.open(path, 0, [&](const std::vector<Event>& events) { first.take(events); });
  CHECK(tail.bytes_read() > 75 * steps_of_weeks);
  const Value reported = first.snapshot();
  const std::uint64_t offset = tail.offset();
  REQUIRE(append_file_synced(path, lines_of_steps(steps_of_weeks + 1, steps_of_weeks + 150)).ok());
  // The one that takes over.
  EventFacts next = EventFacts::of(reported);
  EventTail news(clock);
  news.open(path, offset, [&](const std::vector<Event>& events) { next.take(events); });
  CHECK(news.bytes_read() < 64 << 10);
  CHECK(next.steps().checkpoint == steps_of_weeks + 100);
  first.take(tail.look_now());
  CHECK(next.steps() == first.steps());
}

TEST_CASE("goodput watch: by the lead's clock alone, and on from one lead to the next") {
  constexpr std::int64_t minute = 60'000;
  std::int64_t now = 1'000'000;
  GoodputWatch watch(now);
  const auto heard = [&](std::int64_t after_ms, Event event) {
    now += after_ms;
    event.wall_ms = 1'790'000'000'000 + 20 * 60 * minute;  // of a host whose clock is hours off, and stands still
    watch.take({event}, now);
  };
  CHECK(watch.at_fault(now, 0, -1).over_ms == 0);
  // A quarter of every four minutes is training.
  for (int round = 1; round <= 20; ++round) {
    heard(0, reported_event("launched", {{"launch", round}}));
    heard(3 * minute, reported_event("ready", {{"step", round - 1}, {"load_s", 1}}));
    heard(minute, reported_event("metric", {{"step", round}}));
    heard(0, reported_event("ranks_ended"));
  }
  const RecentGoodput recent = watch.at_fault(now, 0, 20);
  CHECK(recent.over_ms == 80 * minute);
  CHECK(recent.training == doctest::Approx(0.25).epsilon(0.02));
  // Another host: its clock says something else.
  GoodputWatch next = GoodputWatch::of(watch.snapshot(now), 77'000'000);
  const RecentGoodput same = next.at_fault(77'000'000 + 20 * minute, 0, -1);
  CHECK(same.over_ms == 100 * minute);
  CHECK(same.training == doctest::Approx(0.20).epsilon(0.02));
  CHECK(GoodputWatch::of(Value(), 5).at_fault(5, 0, -1).over_ms == 0);
}

}  // namespace longhaul
