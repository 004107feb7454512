// Whether a fault speaks against the host that it happened on. Which class does what stands in the table of faults
// (taxonomy/fault_table.h); who weighs it are the policies of a job (lemon_host.h) and of a run (retry_policy.h).
#pragma once

namespace longhaul {

enum class Accusation {
  never,
  doubtful,  // host or program: the second on the same host counts
  sure,      // the first counts
};
constexpr const char* to_string(Accusation accusation) {
  switch (accusation) {
    case Accusation::never: return "never";
    case Accusation::doubtful: return "at the second";
    case Accusation::sure: return "at once";
  }
  return "unknown";
}

}  // namespace longhaul
