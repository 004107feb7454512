#include "resiliency/retry_policy.h"

#include "base/text.h"

namespace longhaul {

RetryVerdict decide_retry(const std::vector<PastEnd>& ends, int retries) {
  if (ends.empty()) return {true, "nothing failed yet"};
  const PastEnd& newest = ends.back();
  switch (newest.fault) {
    case FaultClass::none:
    case FaultClass::cancelled: return {false, "nothing to try again"};
    case FaultClass::bad_input:
    case FaultClass::time_limit: return {false, format("{} is not cured by trying again", to_string(newest.fault))};
    default: break;
  }
  int same = 0;
  for (auto end = ends.rbegin(); end != ends.rend() && end->fault == newest.fault && end->cause == newest.cause;
       ++end) {
    ++same;
    if (end->made_progress) break;
  }
  if (same >= same_cause_max && !newest.made_progress)
    return {false, format("the same cause {} times without progress", same)};
  const int used = static_cast<int>(ends.size());
  if (used > retries) return {false, retries == 0 ? "no retries allowed" : format("all {} retries used", retries)};
  return {true, format("attempt {} of {}", used + 1, retries + 1)};
}

}  // namespace longhaul
