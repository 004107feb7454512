// Of findings that come again at every look, those that are new. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "resiliency/health/health_finding.h"

namespace longhaul {

class HealthNews {
 public:
  // What was last seen longer than `quiet_ms` ago is new again: longer than a few looks are apart.
  explicit HealthNews(std::int64_t quiet_ms) : quiet_ms_(quiet_ms) {}
  HealthFindings take(const HealthFindings& seen, std::int64_t now_ms);

 private:
  std::int64_t quiet_ms_;
  std::map<std::string, std::int64_t> seen_ms_;  // when each was last seen
};

}  // namespace longhaul
