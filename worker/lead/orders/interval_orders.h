// How often a training saves, where `resiliency.checkpoint_interval` is "online": the interval that IntervalWatch
// chooses from the events and the steps is ordered of rank 0, and written as an event when it changes. What a person
// has ordered counts more.
//
// One thread. Events, ranks and orders belong to the lead and come in with each call. Nothing here fails: an order that
// does not reach its rank is given again at the next poll.
#pragma once

#include <cstdint>
#include <vector>

#include "base/process/log.h"
#include "base/system/clock.h"
#include "contracts/events/event.h"
#include "worker/lead/monitor/interval_watch.h"
#include "worker/lead/orders/first_rank_orders.h"
#include "worker/lead/orders/order_book.h"

namespace longhaul {

class IntervalOrders {
 public:
  // `nodes`, `saves_by_itself`: as of IntervalWatch.
  IntervalOrders(int nodes, bool saves_by_itself, const Clock& clock, EventWriter& events, Logger& log)
      : watch_(nodes, saves_by_itself), clock_(clock), events_(events), log_(log) {}

  // Events as they are written; poll() reads them.
  void take(const std::vector<Event>& events) { news_.insert(news_.end(), events.begin(), events.end()); }
  // Every five seconds; the newest events are to be taken before poll() then.
  bool is_due() const { return clock_.monotonic_ns() >= next_ns_; }
  // `newest_step`: under way in any rank, -1: none.
  void poll(std::int64_t newest_step, FirstRankOrders& first_rank, const OrderBook& by_people);

 private:
  void choose(std::int64_t steps);

  IntervalWatch watch_;
  const Clock& clock_;
  EventWriter& events_;
  Logger& log_;
  Order order_;  // the newest; without an id where there is none yet
  std::vector<Event> news_;
  std::int64_t next_ns_ = 0;
};

}  // namespace longhaul
