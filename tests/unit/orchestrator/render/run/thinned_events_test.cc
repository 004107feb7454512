// Events of a training of weeks, thinned for its curves.
#include "orchestrator/render/run/thinned_events.h"

#include <doctest/doctest.h>

#include "base/files/files.h"
#include "base/text/text.h"
#include "tests/support/scratch.h"

using namespace longhaul;

TEST_CASE("of a million steps some thousand are read, and all that is said once in a while") {
  const testing::Scratch scratch;
  const std::string path = scratch.file("events.jsonl");
  std::string text = event_line({1, "launched", 0, Value::make_table()});
  for (int step = 1; step <= 50'000; ++step) {
    Value fields = Value::make_table();
    fields.set("step", step), fields.set("loss", 1.0 / step), fields.set("lr", 1e-3);
    text += event_line({1000 + step, "metric", 0, std::move(fields)});
    Value progress = Value::make_table();
    progress.set("done", step);
    text += event_line({1000 + step, "progress", 0, std::move(progress)});
    if (step % 500 != 0) continue;
    Value heldout = Value::make_table();
    heldout.set("step", step), heldout.set("validation_loss", 2.0);
    text += event_line({1000 + step, "metric", 0, std::move(heldout)});
  }
  REQUIRE(write_file_atomic(path, text + "{\"t\":\"torn").ok());
  const std::vector<Event> events = read_thinned_events(path, 1000);
  std::int64_t usual = 0, heldout = 0, launched = 0, last = 0;
  for (const Event& event : events) {
    launched += event.kind == "launched";
    heldout += event.fields.find("validation_loss") != nullptr;
    if (!event.fields.find("loss")) continue;
    ++usual, last = event.fields.get_integer("step");
  }
  CHECK(usual <= 1002);
  CHECK(usual >= 990);
  CHECK(last == 50'000);
  CHECK(heldout == 100);
  CHECK(launched == 1);
  // What is not long is taken whole, in its order.
  CHECK(read_thinned_events(path, 60'000).size() == 50'101);
  CHECK(read_thinned_events(scratch.file("none"), 10).empty());
}
