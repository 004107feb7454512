// Collectives out of step in a running launch. Pages of several hosts are of several moments, and ranks on their way
// into a collective look as if they had started different ones; so a desynchronisation counts when nothing has moved
// anywhere for a while, and it is still there at a second look. Then no wait will ever end it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "resiliency/detect/hang/desync.h"

namespace longhaul {

struct DesyncWatchOptions {
  std::int64_t still_ms = 2'000;  // of every rank
  std::int64_t look_ms = 500;     // between looks: among 16,384 ranks each takes some 0.1 s
  int looks = 2;
};

class DesyncWatch {
 public:
  explicit DesyncWatch(const DesyncWatchOptions& options = {}) : options_(options) {}
  void new_launch() { next_look_ms_ = 0, looks_ = 0, text_.clear(), reported_ = false; }
  // Call it as often as you like, with all ranks that take part. Once per standstill; the first where there are
  // several.
  std::optional<Desync> observe(std::int64_t now_ms, const std::vector<RankObservation>& ranks);

 private:
  DesyncWatchOptions options_;
  std::int64_t next_look_ms_ = 0;
  int looks_ = 0;     // in a row that saw the same
  std::string text_;  // of it
  bool reported_ = false;
};

}  // namespace longhaul
