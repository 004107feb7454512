#include "worker/lead/order_book.h"

#include <doctest/doctest.h>

#include <filesystem>

#include "base/files.h"

using namespace longhaul;

namespace {

struct OrderFolder {
  std::string path;
  OrderFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "longhaul-book-XXXXXX").string();
    path = ::mkdtemp(name.data());
  }
  ~OrderFolder() { std::filesystem::remove_all(path); }
  HeartbeatPage page(int number) {
    auto created = HeartbeatPage::create(beat_page_path(path, number), 0);
    REQUIRE(created.ok());
    return std::move(created).value();
  }
};

}  // namespace

TEST_CASE("order book: orders reach the page in their order, and their outcome is written once") {
  OrderFolder folder;
  ManualClock clock;
  EventWriter events(clock, join_path(folder.path, "events.jsonl"), 0);
  OrderBook book(folder.path, clock, events);
  HeartbeatPage page = folder.page(0);
  REQUIRE(place_order(folder.path, {"001", "checkpoint_interval", 50}).ok());
  REQUIRE(place_order(folder.path, {"002", "checkpoint_interval", 20}).ok());
  REQUIRE(place_order(folder.path, {"003", "checkpoint", 0}).ok());
  REQUIRE(place_order(folder.path, {"004", "dance", 0}).ok());
  book.look(nullptr);  // no page yet: orders wait
  CHECK(page.orders() == 0);
  book.look(&page);
  CHECK(page.checkpoint_interval() == 20);
  CHECK(page.checkpoint_orders() == 1);
  CHECK(page.orders() == 3);
  CHECK(read_order_outcome(folder.path, "003").error().code == ErrorCode::not_found);
  const auto refused = read_order_outcome(folder.path, "004");
  REQUIRE(refused.ok());
  CHECK(!refused->done);
  page.step(12);
  page.obeyed(2);
  book.look(&page);
  CHECK(read_order_outcome(folder.path, "002").ok());
  CHECK(!read_order_outcome(folder.path, "003").ok());
  page.obeyed(3);
  book.look(&page);
  const auto done = read_order_outcome(folder.path, "003");
  REQUIRE(done.ok());
  CHECK(done->done);
  CHECK(done->text == "done at step 12");
  std::uint64_t offset = 0;
  CHECK(read_events(join_path(folder.path, "events.jsonl"), offset)->size() == 4);

  // The ranks start again: values stand, the checkpoint was made, an order that was not obeyed yet is given again.
  REQUIRE(place_order(folder.path, {"005", "checkpoint", 0}).ok());
  clock.advance_ms(1500);
  book.look(&page);
  CHECK(page.checkpoint_orders() == 2);
  HeartbeatPage next = folder.page(1);
  book.new_launch();
  book.look(&next);
  CHECK(next.checkpoint_interval() == 20);
  CHECK(next.checkpoint_orders() == 1);
  next.obeyed(next.orders());
  book.look(&next);
  CHECK(read_order_outcome(folder.path, "005").ok());
}

TEST_CASE("order book: stacks need no page, and are told once; other orders wait for one") {
  OrderFolder folder;
  ManualClock clock;
  EventWriter events(clock, "", 0);
  OrderBook book(folder.path, clock, events);
  REQUIRE(place_order(folder.path, {"001", "checkpoint", 0}).ok());
  REQUIRE(place_order(folder.path, {"002", "stacks", 0}).ok());
  CHECK(!book.stacks_wanted());
  book.look(nullptr);
  CHECK(book.stacks_wanted());
  book.tell_stacks({true, "stacks of 4 ranks"});
  CHECK(!book.stacks_wanted());
  CHECK(read_order_outcome(folder.path, "002")->text == "stacks of 4 ranks");
  HeartbeatPage page = folder.page(0);
  book.look(&page);
  CHECK(page.checkpoint_orders() == 1);
  book.new_launch();
  book.look(&page);
  CHECK(!book.stacks_wanted());  // seen in the launch before
}

TEST_CASE("order book: the folder is read again only when it changed") {
  OrderFolder folder;
  ManualClock clock;
  EventWriter events(clock, "", 0);
  OrderBook book(folder.path, clock, events);
  HeartbeatPage page = folder.page(0);
  book.look(&page);
  REQUIRE(place_order(folder.path, {"001", "lr", 1e-4}).ok());
  book.look(&page);
  CHECK(page.orders() == 0);  // about once a second
  clock.advance_ms(1001);
  book.look(&page);
  CHECK(page.learning_rate() == 1e-4);
  CHECK(page.orders() == 1);
}
