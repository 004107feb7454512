#include "resiliency/health/health_news.h"

#include "base/text/text.h"

namespace longhaul {

HealthFindings HealthNews::take(const HealthFindings& seen, std::int64_t now_ms) {
  HealthFindings fresh;
  for (const HealthFinding& finding : seen) {
    // Not by its text, which has figures that differ from look to look.
    const std::string key = format("{} {} {} {}", finding.check, to_string(finding.fault), finding.device, finding.xid);
    const auto known = seen_ms_.find(key);
    if (known == seen_ms_.end() || now_ms - known->second > quiet_ms_) fresh.push_back(finding);
    seen_ms_[key] = now_ms;
  }
  return fresh;
}

}  // namespace longhaul
