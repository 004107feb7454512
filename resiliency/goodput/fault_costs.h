// What the faults of a training have cost, one by one: a fault is open, and paid for, until the training is back where
// it was. Part of GoodputLedger, which says what time passes and of which class it is.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "resiliency/goodput/time_class.h"

namespace longhaul {

// One fault and what it cost: the time until the step was done again that had been done before it.
struct FaultCost {
  std::int64_t at_ms = 0;
  std::string fault, tier;
  std::int64_t step = 0;        // newest done before it
  std::int64_t lost_steps = 0;  // done again after it
  std::array<std::int64_t, time_classes> ms{};

  std::int64_t total_ms() const;  // without training and saves
};

class FaultCosts {
 public:
  // Without `each` only their numbers are kept.
  explicit FaultCosts(bool each) : each_(each) {}

  // One that was gone on from (a step was left out) opens nothing.
  void begin(FaultCost cost, bool goes_on);
  void pay(TimeClass time, std::int64_t ms);
  void lose_steps(std::int64_t steps);
  void paid() { open_ = false; }

  bool open() const { return open_; }
  std::int64_t faults() const { return faults_; }
  std::int64_t lost_steps() const { return lost_steps_; }
  const std::vector<FaultCost>& each() const { return costs_; }

 private:
  bool each_, open_ = false;
  std::int64_t faults_ = 0, lost_steps_ = 0;
  std::vector<FaultCost> costs_;
};

}  // namespace longhaul
