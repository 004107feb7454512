#include "orchestrator/decide/held_up.h"

#include "base/text/text.h"

namespace longhaul {

RefusalAct act_on_refusal(Refusal refusal, const HeldUp& so_far, std::int64_t now_ms, std::int64_t patience_ms) {
  if (refusal == Refusal::silence || refusal == Refusal::never) return RefusalAct::nothing;
  const bool long_enough = so_far.since_ms > 0 && now_ms - so_far.since_ms >= patience_ms;
  if (refusal == Refusal::unknown && long_enough) return RefusalAct::fail;
  return so_far.by == to_string(refusal) ? RefusalAct::nothing : RefusalAct::say;
}

std::string cause_of_long_refusal(const HeldUp& so_far, const std::string& message, std::int64_t now_ms) {
  return format("refused for {}: {}", human_duration(static_cast<double>(now_ms - so_far.since_ms) * 1e-3), message);
}

}  // namespace longhaul
