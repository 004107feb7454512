#include "worker/lead/lead_holder.h"

#include <signal.h>

#include "base/files.h"
#include "base/process.h"
#include "base/text.h"
#include "contracts/record.h"
#include "worker/lead/told_signal.h"
#include "worker/protocol/lead_address.h"

namespace longhaul {
namespace {

constexpr std::int64_t look_interval_ms = 500;

// Until the lead that has taken over is done: its record is there, and its address gone. A signal that Slurm sends to
// the script means the job; the lead elsewhere gets its own.
int wait_for_other_lead(const Attempt& attempt, const JobSurroundings& job, Clock& clock, Logger& log,
                        std::int64_t takeover_within_ms) {
  const std::string address_path = lead_address_path(attempt.attempt_dir, job.restarts);
  const auto first = read_lead_address(address_path);
  const std::int64_t epoch = first.ok() ? first->epoch : 0;
  bool followed = false;
  for (const Deadline takeover(clock, takeover_within_ms);;) {
    const auto address = read_lead_address(address_path);
    followed = followed || (address.ok() && address->epoch > epoch) || epoch > 1;
    const auto record = read_record(attempt.record_path(job.restarts));
    const bool done = !address.ok() && address.error().code == ErrorCode::not_found;
    if (record.ok() && done) return record->outcome == "succeeded" || record->ended_by == "wall_time" ? 0 : 1;
    if (!record.ok() && !followed && takeover.passed()) {
      log.error("event=nobody_leads next=end_job");
      return 1;
    }
    if (wait_for_told_signal(look_interval_ms) == SIGTERM) return 1;
  }
}

}  // namespace

Result<int> hold_lead(const std::vector<std::string>& lead, const Attempt& attempt, const JobSurroundings& job,
                      Clock& clock, Logger& log, std::int64_t takeover_within_ms) {
  block_told_signals();
  SpawnSpec spec;
  spec.argv = lead;
  LH_TRY(const pid_t pid, spawn(spec));
  for (;;) {
    LH_TRY(const auto exit, poll_exit(pid));
    if (exit) {
      if (exit->signal == 0 && exit->code != lead_superseded_exit) return exit->code;
      log.warn("event=lead_gone status='" + exit->text() + "' next=wait_for_another");
      return wait_for_other_lead(attempt, job, clock, log, takeover_within_ms);
    }
    if (const int told = wait_for_told_signal(look_interval_ms); told != 0) ::kill(pid, told);
  }
}

}  // namespace longhaul
