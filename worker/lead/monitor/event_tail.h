// New lines of events.jsonl as the ranks append them; a shared file system is asked at most twice a second.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/system/clock.h"
#include "contracts/events/event.h"

namespace longhaul {

class EventTail {
 public:
  using Taker = std::function<void(const std::vector<Event>&)>;

  explicit EventTail(const Clock& clock) : clock_(clock) {}
  // All whole lines that stand there from byte `offset` on, a piece at a time; what follows them is news.
  void open(const std::string& path, std::uint64_t offset, const Taker& taker);
  // Whole lines since the last look; empty between two.
  std::vector<Event> look();
  // The same at once: something is to be decided.
  std::vector<Event> look_now();

  std::uint64_t offset() const { return offset_; }          // behind all that was returned so far
  std::uint64_t bytes_read() const { return bytes_read_; }  // so far

 private:
  const Clock& clock_;
  std::string path_;
  std::uint64_t offset_ = 0, bytes_read_ = 0;
  std::int64_t next_look_ns_ = 0;
};

}  // namespace longhaul
