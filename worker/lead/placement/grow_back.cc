#include "worker/lead/placement/grow_back.h"

namespace longhaul {

std::vector<std::string> GrowBack::look(std::int64_t now_ms, const std::vector<Sight>& lost) {
  if (after_ms_ <= 0) return {};
  std::map<std::string, std::int64_t> fit_since_ms;
  std::vector<std::string> back;
  for (const Sight& sight : lost) {
    if (!sight.fit) continue;
    const auto known = fit_since_ms_.find(sight.host);
    const std::int64_t since_ms = known == fit_since_ms_.end() ? now_ms : known->second;
    fit_since_ms[sight.host] = since_ms;
    if (now_ms - since_ms >= after_ms_) back.push_back(sight.host);
  }
  fit_since_ms_ = std::move(fit_since_ms);
  if (now_ms - launched_ms_ < after_ms_) back.clear();
  return back;
}

}  // namespace longhaul
