#include "engine/checkpoint/state/memory_snapshot.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "engine/checkpoint/state/file_state_place.h"
#include "tests/support/scratch.h"

using namespace longhaul;

namespace {

struct SnapshotState {
  std::vector<float> masters = std::vector<float>(3000), first = std::vector<float>(3000);
  Tensor second = Tensor(DType::bf16, Shape{3000});
  TrainingState state() {
    TrainingState s;
    s.masters = std::span<float>(masters), s.exp_avg = std::span<float>(first), s.exp_avg_sq = second.view();
    s.progress = progress;
    s.extra = Value::make_table();
    s.extra.set("note", note);
    return s;
  }
  void fill(float value, std::int64_t step) {
    std::ranges::fill(masters, value), std::ranges::fill(first, value + 1);
    std::ranges::fill(second.span<bf16>(), bf16(value + 2));
    progress = {step, 8 * step, step - 1}, note = std::to_string(step);
  }
  TrainingProgress progress;
  std::string note;
};

}  // namespace

TEST_CASE("a snapshot gives back all of the state that it was taken of, and only that") {
  const ComputeContext context(2);
  SnapshotState training;
  MemoryAccount account;
  {
    MemorySnapshot snapshot = MemorySnapshot::create(training.state(), &account).value();
    CHECK(account.bytes_now == 12288 + 12288 + 8192);  // whole pages of 3000 * 4, 4 and 2 bytes
    CHECK(snapshot.bytes() == 30'000);
    CHECK(!snapshot.version());
    training.fill(1, 5);
    snapshot.take(context, training.state(), 41);
    training.fill(2, 6);
    snapshot.take(context, training.state(), 42);
    CHECK(snapshot.version() == 42);
    training.fill(9, 9);
    TrainingState state = training.state();
    snapshot.restore(context, state);
    CHECK(std::ranges::all_of(training.masters, [](float x) { return x == 2; }));
    CHECK(std::ranges::all_of(training.first, [](float x) { return x == 3; }));
    CHECK(std::ranges::all_of(training.second.span<bf16>(), [](bf16 x) { return static_cast<float>(x) == 4; }));
    CHECK(state.progress == TrainingProgress{6, 48, 5});
    CHECK(state.extra.get_string("note") == "6");
    snapshot.forget();
    CHECK(!snapshot.version());
  }
  CHECK(account.bytes_now == 0);
}

TEST_CASE("moments outside of memory have no copy, and the error says what to change") {
  const testing::Scratch scratch;
  const auto place = FileStatePlace::create(scratch.path(), 3000 * 4);
  REQUIRE(place.ok());
  SnapshotState training;
  TrainingState state = training.state();
  state.exp_avg = StateArray(**place, 0, DType::f32, 3000);
  const auto refused = MemorySnapshot::create(state);
  REQUIRE(!refused.ok());
  CHECK(refused.error().code == ErrorCode::unsupported);
  CHECK(refused.error().message().find("offload") != std::string::npos);
}
