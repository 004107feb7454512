// A lead of ranks that are threads, by their heartbeat pages alone.
#pragma once

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "resiliency/beat/heartbeat_page.h"

namespace longhaul::test {

// Orders a restart as soon as a rank says that it has a fault, once everybody is where the last order wanted them.
class OrderingLead {
 public:
  OrderingLead(const std::string& folder, int ranks, bool offers = true) {
    for (int rank = 0; rank < ranks; ++rank) {
      pages_.push_back(HeartbeatPage::create(beat_page_path(folder, rank), rank).value());
      pages_.back().epoch(1);
      if (offers) pages_.back().offer_restart(20'000);
    }
    thread_ = std::thread([this] {  // last: it looks at what was made before
      while (!ended_.load()) {
        look();
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
  }
  int finish() {
    ended_ = true;
    if (thread_.joinable()) thread_.join();
    return orders_;
  }
  ~OrderingLead() { finish(); }

 private:
  void look() {
    bool faulted = false;
    for (const HeartbeatPage& page : pages_) {
      const BeatSnapshot seen = page.snapshot();
      if (seen.epoch != epoch_) return;
      faulted |= seen.section == beat_faulted;
    }
    if (!faulted) return;
    ++epoch_, ++orders_;
    for (HeartbeatPage& page : pages_) page.order_restart(epoch_);
  }
  std::vector<HeartbeatPage> pages_;
  std::atomic<bool> ended_{false};
  std::int64_t epoch_ = 1;
  int orders_ = 0;
  std::thread thread_;
};

}  // namespace longhaul::test
