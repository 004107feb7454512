// A user's orders on one heartbeat page, each written once, and whether its rank has carried it out. Who watches the
// page of the first rank owns this: the agent of its node, or the lead where that is its own. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "resiliency/beat/heartbeat_page.h"

namespace longhaul {

class PageOrders {
 public:
  // What the page has a field for (contracts/control/order.h): "checkpoint", "stop_after" and "checkpoint_interval"
  // with a count, "lr" with a rate.
  static bool knows(const std::string& what, double value);

  // An id that was written before is not written again. False: the page has no field for it.
  bool write(const std::string& id, const std::string& what, double value, HeartbeatPage& page);
  // By id, all that the rank has carried out by now.
  std::vector<std::string> done(const HeartbeatPage& page) const;
  void clear() { numbers_.clear(); }
  bool empty() const { return numbers_.empty(); }

 private:
  std::map<std::string, std::int64_t> numbers_;  // of the page, by id
};

}  // namespace longhaul
