#include "worker/lead/lead.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

#include "base/fault_point.h"
#include "base/files.h"
#include "base/group_access.h"
#include "base/text.h"
#include "contracts/attempt.h"
#include "contracts/record.h"
#include "worker/lead/job_lead.h"
#include "worker/lead/next_round.h"
#include "worker/lead/told_signal.h"

namespace longhaul {
namespace {

constexpr std::int64_t last_round_deadline_ms =
    20 * 60'000;  // a scheduler that is silent for ten minutes is waited for

// On a full disk the half-made output gives its room away; then somebody else may make some: tried for a while, and
// said on stderr (lead.log) in any case.
Status write_record_patiently(const Attempt& attempt, JobRecord record, Clock& clock, Logger& log) {
  for (int tries = 0;; ++tries) {
    record.ended_ms = clock.wall_ms();
    Status written = write_record(attempt.record_path(record.restarts), record);
    if (written.ok()) return {};
    log.error(format("event=record_not_written outcome={} cause='{}' error='{}'", record.outcome, record.cause,
                     written.error().message()));
    if (written.error().code == ErrorCode::conflict || tries == 10) return written;
    if (tries == 0 && written.error().code == ErrorCode::io && remove_tree(attempt.staging_dir()).ok()) continue;
    clock.sleep_ms(500);
  }
}

}  // namespace

namespace {

// Only news: whoever looks sees that something ended, and reads the record.
void ring(const std::string& doorbell) {
  if (doorbell.empty()) return;
  FileDescriptor fd(::open(doorbell.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0664));
  if (fd.valid()) (void)::futimens(fd.get(), nullptr);
}

// Waits for the controller's round that follows the record, as long as the job is let be. Slurm's SIGTERM goes to every
// process of a job: a round that it met at its start is begun again, for often nobody else comes to move the run on.
void finish_rounds(NextRound& rounds, Clock& clock) {
  constexpr int tries_max = 3;
  const Deadline deadline(clock, last_round_deadline_ms);
  for (int tries = 0; tries < tries_max && !deadline.passed(); ++tries) {
    rounds.start_last();
    while (rounds.running() && !deadline.passed()) (void)wait_for_told_signal(100);
    if (!rounds.was_killed()) break;
  }
  rounds.end();
}

}  // namespace

Result<LeadEnd> run_lead(const std::string& attempt_dir, const std::string& worker_program, const JobSurroundings& job,
                         Clock& clock, Logger& log) {
  block_told_signals();
  keep_group_access(attempt_dir);
  LH_TRY(Attempt attempt, read_attempt(join_path(attempt_dir, "attempt.toml")));
  if (!attempt.fault_plan.empty()) LH_CHECK(load_fault_plan(attempt.fault_plan));
  LH_TRY(const ProcessId self, identify_process(::getpid()));
  const std::int64_t started_ms = clock.wall_ms();
  const Status claimed =
      write_claim(attempt.claim_path(job.restarts), {attempt.key, host_name(), self, started_ms, job.scheduler_job});
  if (!claimed.ok()) {
    if (claimed.error().code == ErrorCode::conflict) return LeadEnd::already_led;
    return claimed.error();
  }
  if (auto fault = fault_here(FaultPoint::lead_claimed)) return *fault;
  NextRound rounds(attempt.at_end, join_path(attempt.attempt_dir, "controller.log"), attempt.rounds_at_s, clock, log);
  const JobRecord record = JobLead(attempt, worker_program, job, rounds, clock, log).run(started_ms);
  if (auto fault = fault_here(FaultPoint::lead_before_record)) return *fault;
  LH_CHECK(write_record_patiently(attempt, record, clock, log));
  log.info(format("event=ended outcome={} cause='{}'", record.outcome, record.cause));
  ring(attempt.doorbell);
  finish_rounds(rounds, clock);
  return record.outcome == "succeeded" || record.ended_by == "wall_time" ? LeadEnd::recorded
                                                                         : LeadEnd::recorded_failure;
}

}  // namespace longhaul
