// What becomes of a submission that is not accepted for now, and of a job that waits for what does not come by itself:
// pure decisions over what the ledger remembers.
#pragma once

#include <cstdint>
#include <string>

#include "orchestrator/scheduler/names/refusals.h"
#include "orchestrator/state/run_ledger.h"

namespace longhaul {

// After which a refusal that passes, or may pass, is reported to people.
inline constexpr std::int64_t refusal_reported_after_ms = 10 * 60'000;

enum class RefusalAct {
  nothing,  // it is tried again, and all is said
  say,      // a fact of it is written, once for each kind of refusal
  fail,     // tried for long enough: it is refused for good
};
// Of a submission that was not accepted for now. What is not known to pass fails after `patience_ms`; a limit on the
// number of jobs and a controller that takes no jobs are waited for without end, for they have passed so far.
RefusalAct act_on_refusal(Refusal refusal, const HeldUp& so_far, std::int64_t now_ms, std::int64_t patience_ms);

// "refused for 24h 00m: MESSAGE".
std::string cause_of_long_refusal(const HeldUp& so_far, const std::string& message, std::int64_t now_ms);

}  // namespace longhaul
