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
  // From what is appended after this on: what stands there was read by an earlier lead.
  void open(const std::string& path);
  // Whole lines since the last look; empty between two.
  std::vector<Event> look();

 private:
  const Clock& clock_;
  std::string path_;
  std::uint64_t offset_ = 0;
  std::int64_t next_look_ns_ = 0;
};

}  // namespace longhaul
