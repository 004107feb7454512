#include "worker/lead/event_tail.h"

namespace longhaul {
namespace {
constexpr std::int64_t event_look_interval_ns = 500'000'000;
}

std::vector<Event> EventTail::open(const std::string& path) {
  path_ = path;
  offset_ = 0;
  return look_now();
}

std::vector<Event> EventTail::look() {
  if (clock_.monotonic_ns() < next_look_ns_) return {};
  return look_now();
}

std::vector<Event> EventTail::look_now() {
  if (path_.empty()) return {};
  next_look_ns_ = clock_.monotonic_ns() + event_look_interval_ns;
  auto events = read_events(path_, offset_);
  return events.ok() ? std::move(*events) : std::vector<Event>{};
}

}  // namespace longhaul
