#include "resiliency/detect/hang/desync_watch.h"

#include <algorithm>

namespace longhaul {

std::optional<Desync> DesyncWatch::observe(std::int64_t now_ms, const std::vector<RankObservation>& ranks) {
  const bool still = std::all_of(ranks.begin(), ranks.end(), [&](const RankObservation& rank) {
    return rank.seen && rank.idle_ms >= options_.still_ms && rank.silent_ms < options_.still_ms;
  });
  if (!still || ranks.size() < 2) {
    looks_ = 0, reported_ = false;
    return std::nullopt;
  }
  if (reported_ || now_ms < next_look_ms_) return std::nullopt;
  next_look_ms_ = now_ms + options_.look_ms;
  const std::vector<Desync> found = find_desyncs(ranks);
  if (found.empty()) {
    looks_ = 0;
    return std::nullopt;
  }
  looks_ = found.front().text == text_ ? looks_ + 1 : 1;
  text_ = found.front().text;
  if (looks_ < options_.looks) return std::nullopt;
  reported_ = true;
  return found.front();
}

}  // namespace longhaul
