// Which states still belong to a training that rolled back, once and again.
#include "engine/checkpoint/local/time_line.h"

#include <doctest/doctest.h>

#include <map>
#include <random>

#include "base/files/files.h"
#include "tests/parallel/training_on_ranks.h"
#include "tests/support/scratch.h"
#include "tests/support/seed.h"

using namespace longhaul;

namespace {
namespace time_line {

Value made_on(std::int64_t line) {
  Value extra = Value::make_table();
  if (line > 0) extra.set(time_line_key, line);
  return extra;
}
Value spent(std::initializer_list<std::int64_t> steps) {
  Value array = Value::make_array();
  for (const std::int64_t step : steps) array.push_back(step);
  return array;
}

}  // namespace time_line
}  // namespace

TEST_CASE("time line: without a roll-back every state belongs to it, and nothing is left out") {
  using namespace time_line;
  const TimeLine line;
  CHECK(line.number() == 0);
  CHECK(line.holds(0, made_on(0)));
  CHECK(line.holds(1'000'000, made_on(0)));
  CHECK_FALSE(line.skipped_from(0));
  CHECK(TimeLine::from_value(line.to_value()).value() == line);
}

TEST_CASE("time line: what was made after the target is abandoned, what is made anew is not") {
  using namespace time_line;
  const TimeLine line = TimeLine().rolled_back(10, 28, spent({17}));
  CHECK(line.number() == 1);
  CHECK(line.holds(10, made_on(0)));
  CHECK_FALSE(line.holds(11, made_on(0)));
  CHECK(line.holds(11, made_on(1)));
  CHECK(line.skipped_from(10) == 28);
  CHECK_FALSE(line.skipped_from(9));
  CHECK_FALSE(line.skipped_from(11));
  // Of a second one behind the first both count.
  const TimeLine later = line.rolled_back(20, 40, spent({17, 25}));
  CHECK(later.number() == 2);
  CHECK(later.holds(10, made_on(0)));
  CHECK_FALSE(later.holds(15, made_on(0)));
  CHECK(later.holds(20, made_on(1)));
  CHECK_FALSE(later.holds(21, made_on(1)));
  CHECK(later.skipped_from(10) == 28);
  CHECK(later.skipped_from(20) == 40);
  // One before the first makes it void, and one to the same step takes its place.
  const TimeLine before = line.rolled_back(5, 60, spent({17}));
  CHECK_FALSE(before.holds(10, made_on(1)));
  CHECK_FALSE(before.skipped_from(10));
  CHECK(before.skipped_from(5) == 60);
  const TimeLine again = line.rolled_back(10, 35, spent({17, 12}));
  CHECK(again.number() == 2);
  CHECK(again.skipped_from(10) == 35);
  CHECK_FALSE(again.holds(11, made_on(1)));
  for (const TimeLine& one : {line, later, before, again}) CHECK(TimeLine::from_value(one.to_value()).value() == one);
}

TEST_CASE("time line: what was spent since a state was saved stays spent, and no more than that") {
  using namespace time_line;
  const TimeLine line = TimeLine().rolled_back(10, 28, spent({17}));
  Value spikes = Value::make_table();
  spikes.set("losses", Value::make_array()), spikes.set("spent", spent({3}));
  CHECK(*line.spikes_of(made_on(0), spikes).find("spent") == spent({17}));
  CHECK(line.spikes_of(made_on(0), spikes).find("losses") != nullptr);
  CHECK(line.spikes_of(made_on(1), spikes) == spikes);
}

TEST_CASE("time line: a random history of steps, saves and roll-backs agrees with one that remembers everything") {
  using namespace time_line;
  const std::uint64_t seed = testing::seed(20261122);
  MESSAGE("seed ", seed);
  std::mt19937_64 random(seed);
  const auto draw = [&](std::uint64_t below) { return static_cast<std::int64_t>(random() % below); };
  for (int history = 0; history < 20; ++history) {
    CAPTURE(history);
    struct Saved {
      std::int64_t step, line, skipped;
      bool abandoned;
    };
    TimeLine line;
    std::vector<Saved> saved{{0, 0, 0, false}};
    std::int64_t step = 0, skipped = 0;
    std::map<std::int64_t, std::int64_t> jumps;  // of the present line: left out in all from that step on
    for (int act = 0; act < 200; ++act) {
      if (draw(8) > 0) {
        if (const auto from_here = line.skipped_from(step)) skipped = *from_here;
        ++step;
        if (draw(3) == 0) saved.push_back({step, line.number(), skipped, false});
        continue;
      }
      // Back to any state that is not abandoned.
      std::vector<Saved> good;
      for (const Saved& one : saved)
        if (!one.abandoned && one.step <= step) good.push_back(one);
      const Saved target = good[static_cast<std::size_t>(draw(good.size()))];
      skipped += step - target.step + 1;
      step = target.step;
      line = line.rolled_back(step, skipped, spent({}));
      for (Saved& one : saved) one.abandoned |= one.step > step;
      std::erase_if(jumps, [&](const auto& jump) { return jump.first >= step; });
      jumps[step] = skipped;
    }
    for (const Saved& one : saved) CHECK(line.holds(one.step, made_on(one.line)) == !one.abandoned);
    for (std::int64_t at = 0; at <= 300; ++at) {
      const auto known = jumps.find(at);
      CHECK(line.skipped_from(at) == (known == jumps.end() ? std::nullopt : std::optional(known->second)));
    }
    CHECK(TimeLine::from_value(line.to_value()).value() == line);
  }
}

TEST_CASE("time line: all ranks read what the first one wrote; a damaged one is named and refused") {
  using namespace time_line;
  const testing::Scratch scratch;
  const TimeLine line = TimeLine().rolled_back(10, 28, spent({17}));
  ParallelDims dims;
  dims.dp_replicate = 2;
  int same = 0;
  std::string said;
  const auto read_on_two = [&](bool write) {
    std::atomic<int> equal{0};
    test::on_threads(dims, [&](int rank, Mesh& mesh) {
      if (write && rank == 0 && !write_time_line(scratch.path(), line).ok()) return;
      if (!mesh.world().agree(Status()).ok()) return;
      const auto read = read_time_line(mesh.world(), scratch.path());
      if (read.ok() && *read == line) ++equal;
      if (!read.ok() && rank == 1) said = read.error().message();
    });
    same = equal;
  };
  read_on_two(true);
  CHECK(same == 2);
  for (const char* text : {"{", "{}",
                           R"({"file": "longhaul time line", "format": 1, "line": 1, "roll_backs": [)"
                           R"({"line": 2, "to_step": 3, "skipped_samples": 1}], "spent": []})"}) {
    CAPTURE(text);
    REQUIRE(write_file_atomic(scratch.file("time-line.json"), text).ok());
    said.clear();
    read_on_two(false);
    CHECK(same == 0);
    CHECK(said.find("time-line.json") != std::string::npos);
  }
}
