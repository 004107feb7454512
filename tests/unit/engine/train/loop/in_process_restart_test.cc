// What a rank decides when it has a fault that it survives; the restart itself is tested in
// tests/parallel/in_process_test.cc.
#include "engine/train/loop/in_process_restart.h"

#include <doctest/doctest.h>

#include <atomic>
#include <thread>

#include "tests/support/scratch.h"

using namespace longhaul;

namespace {

struct WaitingRank {
  testing::Scratch scratch;
  HeartbeatPage page = HeartbeatPage::create(scratch.file("beat-0"), 0).value();
  HeartbeatPage worker = HeartbeatPage::open(scratch.file("beat-0")).value();
  SystemClock clock;
  std::atomic<bool> stop{false};
  int reported = 0;
  Result<std::int64_t> wait(const Error& fault) {
    return await_restart_order(page, 3, {fault, may_pass(fault)}, clock, stop, [this](const Error&) {
      ++reported;
      CHECK(worker.snapshot().section != beat_faulted);  // who sees it there finds it reported
    });
  }
};
const Error lost_disk = make_error(ErrorCode::io, "a disk did not answer");

}  // namespace

TEST_CASE("a fault ends the rank at once where nobody orders restarts, or where it would come again") {
  WaitingRank rank;
  auto alone = rank.wait(lost_disk);
  REQUIRE(!alone.ok());
  CHECK(alone.error().what == lost_disk.what);
  CHECK(rank.page.snapshot().section == "start");
  rank.worker.offer_restart(60'000);
  for (const ErrorCode code : {ErrorCode::invalid_input, ErrorCode::not_found, ErrorCode::unsupported,
                               ErrorCode::conflict, ErrorCode::corrupt})
    CHECK(!rank.wait(make_error(code, "the user's")).ok());
  rank.stop = true;  // the job is to end
  CHECK(!rank.wait(lost_disk).ok());
  CHECK(rank.reported == 0);
}

TEST_CASE("a fault is shown on the page until the order comes, and no longer waited for than offered") {
  WaitingRank rank;
  rank.worker.offer_restart(60'000);
  std::thread lead([&] {
    while (rank.worker.snapshot().section != beat_faulted) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    rank.worker.order_restart(3);  // one that it has had already
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    rank.worker.order_restart(4);
  });
  auto ordered = rank.wait(lost_disk);
  lead.join();
  REQUIRE(ordered.ok());
  CHECK(*ordered == 4);
  CHECK(rank.reported == 1);
  // A rank that left because it was ordered to has no fault of its own to report.
  CHECK(rank.wait(make_error(ErrorCode::aborted, "left")).value() == 4);
  CHECK(rank.reported == 1);

  WaitingRank forgotten;
  forgotten.worker.offer_restart(30);
  const std::int64_t begun = forgotten.clock.monotonic_ns();
  auto nothing = forgotten.wait(lost_disk);
  REQUIRE(!nothing.ok());
  CHECK(nothing.error().message().find("no order to restart within 30 ms") != std::string::npos);
  CHECK(forgotten.clock.monotonic_ns() - begun >= 30'000'000);
}

TEST_CASE("ranks go back to the newest state that all of them hold") {
  const std::optional<std::int64_t> none;
  struct {
    std::vector<HeldStates> ranks;
    std::optional<std::int64_t> newest;
  } const cases[] = {
      {{{none, 7}, {none, 7}}, 7},           // nobody had begun to change anything
      {{{6, 7}, {6, none}, {6, 7}}, 6},      // one of them in the middle of an update
      {{{7, none}, {6, 7}}, 7},              // one has the copy, the other still the state itself
      {{{7, 7}, {6, 7}}, 7},                 //
      {{{7, 8}, {6, none}}, none},           // nothing in common
      {{{none, none}, {none, none}}, none},  // no copies at all
      {{{4, 5}}, 5},                         // alone
      {{{4, none}}, 4},                      //
  };
  for (const auto& one : cases) CHECK(newest_held_by_all(one.ranks) == one.newest);
  CHECK(newest_held_by_all({}) == none);
}

TEST_CASE("copies are taken as often as they cost a hundredth") {
  CHECK(copy_interval(1, 0.001, 0.2, 0.01) == 1);
  CHECK(copy_interval(1, 0.002, 0.2, 0.01) == 1);
  CHECK(copy_interval(1, 0.011, 0.2, 0.01) == 6);
  CHECK(copy_interval(10, 0.011, 0.2, 0.01) == 10);
  CHECK(copy_interval(0, 0.011, 0.2, 0.01) == 0);
  CHECK(copy_interval(5, 0.011, 0, 0.01) == 5);
}
