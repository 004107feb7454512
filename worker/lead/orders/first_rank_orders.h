// Brings orders to the first rank's page: itself where that lies on this node, or else through the node's agent, again
// and again until the agent says that it is done.
#pragma once

#include <string>
#include <vector>

#include "worker/lead/agents/agent_table.h"
#include "worker/lead/monitor/rank_watch.h"
#include "worker/lead/orders/order_book.h"
#include "worker/protocol/ranks/page_orders.h"

namespace longhaul {

class FirstRankOrders final : public OrderTaker {
 public:
  explicit FirstRankOrders(RankWatch& watch) : watch_(watch) {}
  void new_launch(AgentTable* agents) { agents_ = agents, written_.clear(); }  // null: all ranks are on this node

  bool ready() const override { return watch_.page(0) || watch_.rank(0); }
  void take(const Order& order) override;
  std::vector<std::string> done() const override;
  std::int64_t step() const override;

 private:
  RankWatch& watch_;
  AgentTable* agents_ = nullptr;
  PageOrders written_;  // on this node
};

}  // namespace longhaul
