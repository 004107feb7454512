#include "worker/lead/recovery/reported_corruption.h"

#include <doctest/doctest.h>

using namespace longhaul;

TEST_CASE("of what ranks have reported, the newest of this launch that is silent corruption counts") {
  const auto reported = [](std::int64_t ms, int rank, int launch, bool corruption) {
    Event event{ms, "faulted", rank, Value::make_table()};
    event.fields.set("what", "something");
    event.fields.set("launch", static_cast<std::int64_t>(launch));
    SilentCorruption found;
    found.rank = rank, found.step = ms / 100, found.sound_step = found.step - 1, found.what = "bits";
    if (corruption) set_fields(event.fields, found);
    return event;
  };
  const std::vector<Event> events = {reported(1'000, 1, 1, true), reported(2'000, 3, 2, true),
                                     reported(3'000, 0, 2, false)};
  const auto newest = reported_corruption(events, 2);
  REQUIRE(newest);
  CHECK(newest->rank == 3);
  CHECK(newest->step == 20);
  CHECK(newest->weights_are_sound());
  CHECK(newest->is_of_one_rank());
  CHECK(newest->what == "bits");
  CHECK(reported_corruption(events, 1)->rank == 1);
  CHECK(!reported_corruption(events, 3));
}

TEST_CASE("what two ranks disagree about, or nobody can know, accuses no rank") {
  SilentCorruption found;
  found.rank = 2, found.other = 5, found.step = 9, found.sound_step = 4;
  Value fields = Value::make_table();
  set_fields(fields, found);
  auto back = silent_corruption_of(fields);
  REQUIRE(back);
  CHECK(!back->is_of_one_rank());
  CHECK(!back->weights_are_sound());
  found.other = -1, found.decided = false;
  fields = Value::make_table();
  set_fields(fields, found);
  back = silent_corruption_of(fields);
  REQUIRE(back);
  CHECK(!back->is_of_one_rank());
  CHECK(!silent_corruption_of(Value::make_table()));
}
