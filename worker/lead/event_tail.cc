#include "worker/lead/event_tail.h"

#include <sys/stat.h>

namespace longhaul {
namespace {
constexpr std::int64_t event_look_interval_ns = 500'000'000;
}

// A line that is being written now is read from its middle, and passed over like any torn one.
void EventTail::open(const std::string& path) {
  struct stat found{};
  path_ = path;
  offset_ = ::stat(path.c_str(), &found) == 0 ? static_cast<std::uint64_t>(found.st_size) : 0;
  next_look_ns_ = 0;
}

std::vector<Event> EventTail::look() {
  if (path_.empty() || clock_.monotonic_ns() < next_look_ns_) return {};
  next_look_ns_ = clock_.monotonic_ns() + event_look_interval_ns;
  auto events = read_events(path_, offset_);
  return events.ok() ? std::move(*events) : std::vector<Event>{};
}

}  // namespace longhaul
