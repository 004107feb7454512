// New lines of events.jsonl as the ranks append them; a shared file system is asked at most twice a second.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "contracts/event.h"

namespace longhaul {

class EventTail {
 public:
  explicit EventTail(const Clock& clock) : clock_(clock) {}
  // All whole lines that stand there; what follows them is news.
  std::vector<Event> open(const std::string& path);
  // Whole lines since the last look; empty between two.
  std::vector<Event> look();
  // The same at once: something is to be decided.
  std::vector<Event> look_now();

 private:
  const Clock& clock_;
  std::string path_;
  std::uint64_t offset_ = 0;
  std::int64_t next_look_ns_ = 0;
};

}  // namespace longhaul
