// Room worker/lead/orders
// Orders of people (`longhaul tell`) on their way to the ranks.
// order_book.h reads orders and writes what became of each; first_rank_orders.h reaches the first rank.
// It decides nothing by itself and knows no restart: the ranks agree on an order among themselves.
//
// The orders of one stage, as its lead carries them to the ranks: looks at the folder about once a second, writes what
// is new to the first rank's heartbeat page (the ranks agree upon it), and writes down what became of it. The page is
// on another node where the first rank is: its agent then writes to it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/system/clock.h"
#include "contracts/control/order.h"
#include "contracts/events/event.h"

namespace longhaul {

// The page that takes the orders, wherever it lies.
class OrderTaker {
 public:
  virtual ~OrderTaker() = default;
  // Nothing is handed over before; asked at every look.
  virtual bool ready() const = 0;
  // May be given one that is not done again and again.
  virtual void take(const Order& order) = 0;
  virtual std::vector<std::string> done() const = 0;  // by id
  virtual std::int64_t step() const = 0;              // newest of the training
};

class OrderBook {
 public:
  OrderBook(std::string stage_dir, const Clock& clock, EventWriter& events)
      : stage_dir_(std::move(stage_dir)), clock_(clock), events_(events) {}

  // A new start of the ranks, with new pages: standing orders are handed over again.
  void new_launch() { handed_.clear(), next_look_ns_ = 0, folder_changed_ns_ = -1, changed_at_ns_ = 0; }
  // Cheap to call often. Orders wait until the taker is ready.
  void look(OrderTaker& first_rank);
  // Whether somebody has ordered this in this launch.
  bool ordered(const std::string& what) const;
  // Somebody wants to see what all ranks are doing. The lead has it written, and says what came of it.
  bool stacks_wanted() const;
  void report_stacks(const OrderOutcome& outcome);
  // Faults that a person wants to see and that were not handed out yet; an outcome of each has to be reported.
  std::vector<Order> take_faults();
  void report_fault(const Order& order, const OrderOutcome& outcome) { report_outcome(order, outcome); }

 private:
  struct Handed {
    Order order;
    bool answered = false;  // its outcome is written, or somebody else is about to
    bool taken = false;
    bool wants_stacks() const { return order.what == "stacks" && !answered; }
  };
  void hand_over(const Order& order, OrderTaker& first_rank);
  void note_outcomes(const OrderTaker& first_rank);
  void report_outcome(const Order& order, const OrderOutcome& outcome);

  std::string stage_dir_;
  const Clock& clock_;
  EventWriter& events_;
  std::map<std::string, Handed> handed_;  // in this launch, by id
  std::int64_t next_look_ns_ = 0, folder_changed_ns_ = -1;
  std::int64_t changed_at_ns_ = 0;  // when that time of the folder was first seen, by this clock
  bool page_wanted_ = false;        // an order waits for the first rank's page
};

}  // namespace longhaul
