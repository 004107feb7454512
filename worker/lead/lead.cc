#include "worker/lead/lead.h"

#include <signal.h>

#include "base/files/files.h"
#include "base/files/owned_files.h"
#include "base/process/fault_point.h"
#include "base/process/process.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "contracts/records/attempt.h"
#include "contracts/records/record.h"
#include "worker/lead/failover/allocation_end.h"
#include "worker/lead/failover/leader_lease.h"
#include "worker/lead/failover/majority_wait.h"
#include "worker/lead/failover/scheduler_vote.h"
#include "worker/lead/failover/stop_signal.h"
#include "worker/lead/job_lead.h"
#include "worker/lead/last_rounds.h"
#include "worker/lead/next_round.h"
#include "worker/lead/placement/staging.h"
#include "worker/lead/record_reserve.h"
#include "worker/lead/recovery/goes_on_elsewhere.h"
#include "worker/protocol/wire/host_address.h"

namespace longhaul {
namespace {

constexpr std::int64_t return_within_ms = 500;
constexpr std::uint64_t lead_state_bytes_max = 256 << 20;

// On a full disk the half-made output gives its room away, after what was kept for this; then somebody else may make
// some: tried for a while, and said on stderr (lead.log) in any case.
Status write_record_patiently(const Attempt& attempt, JobRecord record, Clock& clock, Logger& log) {
  give_up_reserve(attempt);
  for (int tries = 0;; ++tries) {
    record.ended_ms = clock.wall_ms();
    Status written = write_record(attempt.record_path(record.restarts), record);
    if (written.ok()) return {};
    log.error(format("event=record_not_written outcome={} cause='{}' error='{}'", record.outcome, record.cause,
                     written.error().message()));
    if (written.error().code == ErrorCode::conflict || tries == 10) return written;
    if (tries == 0 && written.error().code == ErrorCode::io && clear_staging(attempt, record.restarts).ok()) continue;
    clock.sleep_ms(500);
  }
}

// Only news: whoever looks sees that something ended, and reads the record.
void ring(const std::string& doorbell) {
  if (doorbell.empty()) return;
  (void)touch_file(doorbell, 0664).ok();
}

// What follows the work of any lead: the record, the news of it, the controller's next round. The round is made
// whatever became of the record: what keeps it from being written may be the very reason why the work did not go on.
Result<LeadEnd> conclude(const Attempt& attempt, JobRecord record, const HeldNodes& nodes, NextRound& rounds,
                         Clock& clock, Logger& log) {
  if (auto fault = fault_here(FaultPoint::lead_before_record)) return *fault;
  const Status written = write_record_patiently(attempt, record, clock, log);
  log.info(format("event=ended outcome={} cause='{}'", record.outcome, record.cause));
  ring(attempt.doorbell);
  if (record.ended_ms == 0) record.ended_ms = clock.wall_ms();
  // One that is there already is another life's or lead's record of this attempt: only its own counts.
  make_last_rounds(attempt, record, written.ok() || is_record_of(attempt, record), nodes, rounds, clock, log);
  LH_CHECK(written);
  return record.outcome == "succeeded" || goes_on_elsewhere(record) ? LeadEnd::recorded : LeadEnd::recorded_failure;
}

NextRound rounds_of(const Attempt& attempt, const std::string& job, Clock& clock, Logger& log) {
  std::vector<std::string> arguments = attempt.at_end;
  if (!arguments.empty() && !job.empty()) arguments.insert(arguments.end(), {round_of_job_option, job});
  return NextRound(std::move(arguments), join_path(attempt.attempt_dir, "controller.log"), attempt.rounds_at_s, clock,
                   log);
}

// They come back to the new epoch within moments, and until then this lead may decide nothing.
void wait_for_return(AgentTable& agents, int came, Clock& clock) {
  for (const Deadline deadline(clock, return_within_ms); !deadline.passed() && agents.connected() < came;
       clock.sleep_ms(5))
    agents.look();
}

// The allocation of a job whose script's node is gone goes on after its work is done; nobody else ends it.
void end_allocation(const Attempt& attempt, const std::string& job, Logger& log) {
  const bool followed = has_later_attempt(attempt);
  const auto ended = run_program(allocation_end_arguments(job, followed), 30'000);
  log.info(format("event=allocation_ended job={} followed={} status='{}'", job, followed,
                  ended.ok() ? ended->status.text() : ended.error().message()));
}

}  // namespace

Result<LeadEnd> run_lead(const std::string& attempt_dir, const std::string& worker_program, const AllocationInfo& job,
                         Clock& clock, Logger& log) {
  block_stop_signals();
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
  if (const Status kept = keep_reserve(attempt); !kept.ok())
    log.warn("event=no_reserve error='" + kept.error().message() + "' next=go_on_without");
  NextRound rounds = rounds_of(attempt, job.scheduler_job, clock, log);
  JobLead lead(attempt, worker_program, job, rounds, clock, log);
  const JobRecord record = lead.run(started_ms);
  if (lead.superseded()) return LeadEnd::superseded;
  return conclude(attempt, record, {job.scheduler_job, lead.nodes_held(), lead.ranks_ended_ns(), job.node}, rounds,
                  clock, log);
}

Result<LeadEnd> take_over(const std::string& attempt_dir, const std::string& worker_program, const AllocationInfo& job,
                          const std::string& state_path, FileDescriptor listener, Clock& clock, Logger& log) {
  block_stop_signals();
  // What it says decides where the artifact is published: ours, and nobody else's.
  LH_TRY(const std::string text, read_owned_file(state_path, private_to_us(), lead_state_bytes_max));
  LH_TRY(const Value value, parse_json(text, state_path));
  LH_TRY(const LeadState state, lead_state_from_value(value));
  LH_TRY(const Attempt attempt, read_attempt(join_path(attempt_dir, "attempt.toml")));
  if (state.attempt_key != attempt.key)
    return make_error(ErrorCode::conflict, "the state is of the attempt " + state.attempt_key);
  AgentTableOptions options;
  options.attempt_key = attempt.key;
  options.address_path = lead_address_path(attempt_dir, job.restarts);
  options.secret_path = lead_secret_path(attempt_dir, job.restarts);
  options.host = job.node.empty() ? host_name() : job.node;
  options.epoch = state.epoch;
  options.hosts = state.hosts.all();
  options.record_path = attempt.record_path(job.restarts);
  options.asks = state.asks;
  options.ports = state.ports;
  options.addresses = own_addresses();  // the scheduler is asked nothing that this has to wait for
  LH_TRY(Listener socket, Listener::take(std::move(listener)));
  LH_TRY(std::unique_ptr<AgentTable> agents,
         AgentTable::in_waiting(options, std::move(socket), clock, log, state.led_from, state.lost));
  SchedulerVote vote(ask_for_nodes_of(job.scheduler_job), options.host, clock);
  LH_CHECK(wait_for_majority(*agents, state.hosts, vote, clock, log));
  const int came = agents->connected();
  const Status written = agents->take_over(vote.gone());
  if (!written.ok()) log.warn("event=address_not_written error='" + written.error().message() + "' next=try_again");
  std::optional<LeaderLease> life(LeaderLeaseOptions{options.address_path, leader_lease_interval_ms, agents->address(),
                                                     written.ok(), options.record_path});
  log.warn(format("event=takes_over epoch={} launch={}", agents->epoch(), state.launch.launch));
  wait_for_return(*agents, came, clock);
  NextRound rounds = rounds_of(attempt, job.scheduler_job, clock, log);
  JobLead lead(attempt, worker_program, job, rounds, clock, log);
  const JobRecord record = lead.take_over(state, std::move(agents), std::move(vote));
  if (lead.superseded()) return LeadEnd::superseded;
  const HeldNodes nodes{job.scheduler_job, lead.nodes_held(), lead.ranks_ended_ns(), job.node};
  const auto end = conclude(attempt, record, nodes, rounds, clock, log);
  life.reset();  // it would write the address again
  // Whoever waits for this lead sees that it is done, if it is: an address that is gone says so only beside a record.
  if (end.ok()) (void)remove_tree(options.address_path).ok();
  if (lead.batch_host_lost()) end_allocation(attempt, job.scheduler_job, log);
  return end;
}

}  // namespace longhaul
