// The orders of one stage, as its lead carries them to the ranks: looks at the folder about once a second, writes what
// is new to the first rank's heartbeat page (the ranks agree upon it), and writes down what became of it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "contracts/event.h"
#include "contracts/order.h"
#include "resiliency/beat/heartbeat_page.h"

namespace longhaul {

class OrderBook {
 public:
  OrderBook(std::string stage_dir, const Clock& clock, EventWriter& events)
      : stage_dir_(std::move(stage_dir)), clock_(clock), events_(events) {}

  // A new start of the ranks, with new pages: standing orders are handed over again.
  void new_launch() { handed_.clear(), next_look_ns_ = 0, folder_changed_ns_ = -1; }
  // `first_rank`: its page, or null while it has none: orders wait. Cheap to call often.
  void look(HeartbeatPage* first_rank);
  // Somebody wants to see what all ranks are doing. The lead has it written, and says what came of it.
  bool stacks_wanted() const;
  void tell_stacks(const OrderOutcome& outcome);
  // Faults that a person wants to see and that were not handed out yet; each has to be told an outcome of.
  std::vector<Order> take_faults();
  void tell_fault(const Order& order, const OrderOutcome& outcome) { tell(order, outcome); }

 private:
  struct Handed {
    Order order;
    std::int64_t number = 0;  // of the page
    bool told = false;        // its outcome is written, or somebody else is about to
    bool wants_stacks() const { return order.what == "stacks" && !told; }
  };
  void hand_over(const Order& order, HeartbeatPage& page);
  void note_outcomes(const HeartbeatPage& page);
  void tell(const Order& order, const OrderOutcome& outcome);

  std::string stage_dir_;
  const Clock& clock_;
  EventWriter& events_;
  std::map<std::string, Handed> handed_;  // in this launch, by id
  std::int64_t next_look_ns_ = 0, folder_changed_ns_ = -1;
  bool page_wanted_ = false;  // an order waits for the first rank's page
};

}  // namespace longhaul
