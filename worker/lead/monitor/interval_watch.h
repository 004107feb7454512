// How often a training saves, chosen while it runs: what its events say of saves and faults goes to IntervalChooser
// (resiliency/checkpoint_interval.h), and another interval is ordered when that is better by enough. Pure: time, step
// and events come from outside. A new job begins with the failure rate that is expected of so many nodes.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "contracts/events/event.h"
#include "resiliency/checkpoint_interval.h"

namespace longhaul {

class IntervalWatch {
 public:
  // `saves_by_itself`: the training saves every so many steps before it has an order; else the first interval is
  // ordered once steps were timed, by what is expected of a save.
  explicit IntervalWatch(int nodes, bool saves_by_itself = true);

  // `news`: events since the last look, oldest first; `step`: the newest that was completed, -1 if none. Returns steps
  // between two saves when they change; nothing before a save was measured, or steps where no save comes by itself.
  std::optional<std::int64_t> look(std::int64_t now_ms, std::int64_t step, const std::vector<Event>& news);
  const IntervalChooser& chooser() const { return chooser_; }

 private:
  IntervalChooser chooser_;
  std::optional<std::int64_t> looked_ms_;
  std::int64_t step_ = -1;
  bool measured_ = false;  // a save, or what stands for it
  bool saves_by_itself_;
  std::int64_t timed_steps_ = 0;
  std::int64_t ordered_ = 0;
};

}  // namespace longhaul
