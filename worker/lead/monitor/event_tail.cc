#include "worker/lead/monitor/event_tail.h"

#include "contracts/events/event.h"

namespace longhaul {
namespace {

constexpr std::int64_t event_look_interval_ns = 500'000'000;
constexpr std::size_t piece_bytes = std::size_t{1} << 20;

}  // namespace

void EventTail::open(const std::string& path, std::uint64_t offset, const Taker& taker) {
  path_ = path;
  offset_ = offset;
  for (bool more = true; more;) {
    auto piece = read_event_piece(path_, offset_, piece_bytes);
    if (!piece.ok()) return;
    bytes_read_ += piece->bytes_read;
    more = piece->more;
    taker(piece->events);
  }
  next_look_ns_ = clock_.monotonic_ns() + event_look_interval_ns;
}

std::vector<Event> EventTail::look() {
  if (clock_.monotonic_ns() < next_look_ns_) return {};
  return look_now();
}

std::vector<Event> EventTail::look_now() {
  std::vector<Event> news;
  if (path_.empty()) return news;
  open(path_, offset_, [&](const std::vector<Event>& piece) { news.insert(news.end(), piece.begin(), piece.end()); });
  return news;
}

}  // namespace longhaul
