#include "worker/lead/orders/order_book.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <filesystem>

#include "base/files/files.h"
#include "worker/protocol/ranks/page_orders.h"

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

// As the lead has it where the first rank is on its own node; null: it has no page yet.
class PageTaker final : public OrderTaker {
 public:
  explicit PageTaker(HeartbeatPage* page) : page_(page) {}
  bool ready() const override { return page_ != nullptr; }
  void take(const Order& order) override { CHECK(orders_.write(order.id, order.what, order.value, *page_)); }
  std::vector<std::string> done() const override { return orders_.done(*page_); }
  std::int64_t step() const override { return page_->snapshot().step; }

 private:
  HeartbeatPage* page_;
  PageOrders orders_;
};

}  // namespace

TEST_CASE("order book: orders reach the page in their order, and their outcome is written once") {
  OrderFolder folder;
  ManualClock clock;
  EventWriter events(clock, join_path(folder.path, "events.jsonl"), 0);
  OrderBook book(folder.path, clock, events);
  HeartbeatPage page = folder.page(0);
  PageTaker taker(&page);
  REQUIRE(place_order(folder.path, {"001", "checkpoint_interval", 50}).ok());
  REQUIRE(place_order(folder.path, {"002", "checkpoint_interval", 20}).ok());
  REQUIRE(place_order(folder.path, {"003", "checkpoint", 0}).ok());
  REQUIRE(place_order(folder.path, {"004", "dance", 0}).ok());
  PageTaker nobody(nullptr);
  book.look(nobody);  // no page yet: orders wait
  CHECK(page.orders() == 0);
  book.look(taker);
  CHECK(page.checkpoint_interval() == 20);
  CHECK(page.checkpoint_orders() == 1);
  CHECK(page.orders() == 3);
  CHECK(read_order_outcome(folder.path, "003").error().code == ErrorCode::not_found);
  const auto refused = read_order_outcome(folder.path, "004");
  REQUIRE(refused.ok());
  CHECK(!refused->done);
  page.step(12);
  page.obeyed(2);
  book.look(taker);
  CHECK(read_order_outcome(folder.path, "002").ok());
  CHECK(!read_order_outcome(folder.path, "003").ok());
  page.obeyed(3);
  book.look(taker);
  const auto done = read_order_outcome(folder.path, "003");
  REQUIRE(done.ok());
  CHECK(done->done);
  CHECK(done->text == "done at step 12");
  std::uint64_t offset = 0;
  CHECK(read_events(join_path(folder.path, "events.jsonl"), offset)->size() == 4);

  // The ranks start again: values stand, the checkpoint was made, an order that was not obeyed yet is given again.
  REQUIRE(place_order(folder.path, {"005", "checkpoint", 0}).ok());
  clock.advance_ms(1500);
  book.look(taker);
  CHECK(page.checkpoint_orders() == 2);
  HeartbeatPage next = folder.page(1);
  book.new_launch();
  PageTaker next_taker(&next);
  book.look(next_taker);
  CHECK(next.checkpoint_interval() == 20);
  CHECK(next.checkpoint_orders() == 1);
  next.obeyed(next.orders());
  book.look(next_taker);
  CHECK(read_order_outcome(folder.path, "005").ok());
}

TEST_CASE("order book: stacks need no page, and are reported once; other orders wait for one") {
  OrderFolder folder;
  ManualClock clock;
  EventWriter events(clock, "", 0);
  OrderBook book(folder.path, clock, events);
  REQUIRE(place_order(folder.path, {"001", "checkpoint", 0}).ok());
  REQUIRE(place_order(folder.path, {"002", "stacks", 0}).ok());
  CHECK(!book.stacks_wanted());
  PageTaker nobody(nullptr);
  book.look(nobody);
  CHECK(book.stacks_wanted());
  book.report_stacks({true, "stacks of 4 ranks"});
  CHECK(!book.stacks_wanted());
  CHECK(read_order_outcome(folder.path, "002")->text == "stacks of 4 ranks");
  HeartbeatPage page = folder.page(0);
  PageTaker taker(&page);
  book.look(taker);
  CHECK(page.checkpoint_orders() == 1);
  book.new_launch();
  book.look(taker);
  CHECK(!book.stacks_wanted());  // seen in the launch before
}

TEST_CASE("order book: a fault is handed out once, by whatever launch, and needs no page") {
  OrderFolder folder;
  ManualClock clock;
  EventWriter events(clock, "", 0);
  OrderBook book(folder.path, clock, events);
  Value fault = Value::make_table();
  fault.set("name", "SIGKILL");
  REQUIRE(place_order(folder.path, {"001", "fault", 0, fault}).ok());
  PageTaker nobody(nullptr);
  book.look(nobody);
  const std::vector<Order> taken = book.take_faults();
  REQUIRE(taken.size() == 1);
  CHECK(taken[0].fault == fault);
  CHECK(book.take_faults().empty());
  CHECK(!book.stacks_wanted());
  book.report_fault(taken[0], {true, "taken: SIGKILL of rank 0"});
  book.new_launch();
  book.look(nobody);
  CHECK(book.take_faults().empty());
  CHECK(read_order_outcome(folder.path, "001")->text == "taken: SIGKILL of rank 0");
}

TEST_CASE("order book: the folder is read again only when it changed") {
  OrderFolder folder;
  ManualClock clock;
  EventWriter events(clock, "", 0);
  OrderBook book(folder.path, clock, events);
  HeartbeatPage page = folder.page(0);
  PageTaker taker(&page);
  book.look(taker);
  REQUIRE(place_order(folder.path, {"001", "lr", 1e-4}).ok());
  book.look(taker);
  CHECK(page.orders() == 0);  // about once a second
  clock.advance_ms(1001);
  book.look(taker);
  CHECK(page.learning_rate() == 1e-4);
  CHECK(page.orders() == 1);
}

TEST_CASE("order book: an order of the same time as the one before it, on a coarse clock, is seen") {
  OrderFolder folder;
  ManualClock clock;
  EventWriter events(clock, "", 0);
  OrderBook book(folder.path, clock, events);
  HeartbeatPage page = folder.page(0);
  PageTaker taker(&page);
  const std::string orders = orders_folder(folder.path);
  const auto same_time = [&] {
    const timespec times[2] = {{1'790'000'000, 0}, {1'790'000'000, 0}};
    REQUIRE(::utimensat(AT_FDCWD, orders.c_str(), times, 0) == 0);
  };
  REQUIRE(place_order(folder.path, {"001", "lr", 1e-4}).ok());
  same_time();
  book.look(taker);
  CHECK(page.orders() == 1);
  REQUIRE(place_order(folder.path, {"002", "lr", 2e-4}).ok());
  same_time();
  clock.advance_ms(1001);
  book.look(taker);
  CHECK(page.learning_rate() == 2e-4);
}

TEST_CASE("order book: a taker that may lose orders is given one again until it is done") {
  class Forgetful final : public OrderTaker {
   public:
    bool ready() const override { return true; }
    void take(const Order& order) override { reported.push_back(order.id); }
    std::vector<std::string> done() const override { return finished; }
    std::int64_t step() const override { return 7; }
    std::vector<std::string> reported, finished;
  };
  OrderFolder folder;
  ManualClock clock;
  EventWriter events(clock, "", 0);
  OrderBook book(folder.path, clock, events);
  Forgetful agent;
  REQUIRE(place_order(folder.path, {"001", "checkpoint", 0}).ok());
  book.look(agent);
  clock.advance_ms(1001);
  book.look(agent);
  CHECK(agent.reported == std::vector<std::string>{"001", "001"});
  agent.finished = {"001", "of somebody else"};
  book.look(agent);
  CHECK(read_order_outcome(folder.path, "001")->text == "done at step 7");
  clock.advance_ms(1001);
  book.look(agent);
  CHECK(agent.reported.size() == 2);
}
