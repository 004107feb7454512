#include "worker/lead/recovery/lost_start.h"

#include "base/text/text.h"
#include "worker/launch/rank_programs.h"
#include "worker/lead/recovery/failure_lines.h"

namespace longhaul {

std::optional<GuardFinding> lost_start(const std::optional<GuardFinding>& demand, const std::string& launch_dir,
                                       std::int64_t launched_ns, std::int64_t now_ms,
                                       const std::vector<RankObservation>& ranks, const LaunchGuard& guard) {
  const std::int64_t waited_ms = now_ms - launched_ns / 1'000'000;
  const bool waits = launched_ns > 0 && waited_ms >= lost_start_ms && guard.ends_hangs();
  if (demand || !waits || ranks.empty() || !has_not_started(ranks)) return demand;
  const auto said = launcher_gave_up(launcher_log_path(launch_dir));
  if (!said) return std::nullopt;
  GuardFinding found;
  found.kind = GuardFinding::Kind::hang;
  found.detect_s = static_cast<double>(waited_ms) * 1e-3;
  found.cause =
      format("no rank has come past its start for {:.0f} s, and the launcher says: {}", found.detect_s, *said);
  return found;
}

}  // namespace longhaul
