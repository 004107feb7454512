#include "worker/lead/orders/first_rank_orders.h"

namespace longhaul {

void FirstRankOrders::take(const Order& order) {
  if (HeartbeatPage* const page = watch_.page(0)) {
    (void)written_.write(order.id, order.what, order.value, *page);
  } else if (agents_) {
    agents_->order_page(watch_.host_of(0), 0, order);
  }
}

std::vector<std::string> FirstRankOrders::done() const {
  if (const HeartbeatPage* const page = watch_.page(0)) return written_.done(*page);
  if (!agents_) return {};
  const auto agent = agents_->agents().find(watch_.host_of(0));
  return agent == agents_->agents().end() ? std::vector<std::string>() : agent->second.report.orders_done;
}

std::int64_t FirstRankOrders::step() const {
  const RankReport* const report = watch_.rank(0);
  return report ? report->beat.step : -1;
}

}  // namespace longhaul
