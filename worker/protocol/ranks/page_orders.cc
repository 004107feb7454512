#include "worker/protocol/ranks/page_orders.h"

#include <cmath>

namespace longhaul {

bool PageOrders::knows(const std::string& what, double value) {
  if (what == "checkpoint") return true;
  if (what == "stop_after" || what == "checkpoint_interval") return std::llround(value) >= 1;
  return what == "lr" && value > 0;
}

bool PageOrders::write(const std::string& id, const std::string& what, double value, HeartbeatPage& page) {
  if (!knows(what, value)) return false;
  if (numbers_.contains(id)) return true;
  const auto count = static_cast<std::int64_t>(std::llround(value));
  numbers_[id] = what == "checkpoint"            ? page.order_checkpoint()
                 : what == "stop_after"          ? page.order_stop_after(count)
                 : what == "checkpoint_interval" ? page.order_checkpoint_interval(count)
                                                 : page.order_learning_rate(value);
  return true;
}

std::vector<std::string> PageOrders::done(const HeartbeatPage& page) const {
  std::vector<std::string> ids;
  const std::int64_t obeyed = page.orders_obeyed();
  for (const auto& [id, number] : numbers_)
    if (obeyed >= number) ids.push_back(id);
  return ids;
}

}  // namespace longhaul
