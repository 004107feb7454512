// What a rank does between two looks at something that nobody reports to it: a message that MPI may have received, say.
// Busy for a moment, then polite to the ranks on the same cores, then asleep: each time for a 32nd of what it has slept
// so far. A wait therefore ends at most a 32nd of its length late (or 0.1 ms, where that is more, which is what a
// kernel takes for the shortest sleep), and a long one leaves its core to those who work: asking MPI over TCP costs 10
// us.
#pragma once

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <cstdint>

namespace longhaul {

class PollPause {
 public:
  static constexpr std::int64_t busy_polls = 32, yielding_polls = 512;
  static constexpr std::int64_t shortest_ns = 50'000, longest_ns = 1'000'000;

  static std::int64_t sleep_after(std::int64_t slept_ns) { return std::clamp(slept_ns / 32, shortest_ns, longest_ns); }

  bool is_busy() const { return polls_ < busy_polls; }
  void next() {
    ++polls_;
    if (polls_ <= busy_polls) return;
    if (polls_ <= yielding_polls) {
      sched_yield();
      return;
    }
    const std::int64_t sleep_ns = sleep_after(slept_ns_);
    const struct timespec pause{0, sleep_ns};
    nanosleep(&pause, nullptr);
    slept_ns_ += sleep_ns;
  }

 private:
  std::int64_t polls_ = 0, slept_ns_ = 0;
};

}  // namespace longhaul
