#include "worker/lead/failover/lead_holder.h"

#include <signal.h>
#include <sys/stat.h>

#include <optional>
#include <utility>

#include "base/files/files.h"
#include "base/process/process.h"
#include "base/text/text.h"
#include "contracts/records/record.h"
#include "worker/lead/failover/stop_signal.h"
#include "worker/lead/recovery/goes_on_elsewhere.h"
#include "worker/protocol/ranks/process_watch.h"
#include "worker/protocol/wire/lead_address.h"

namespace longhaul {
namespace {

constexpr std::int64_t holder_look_ms = 500;

constexpr std::int64_t slow_look_ms = 5'000;

// How long nothing was seen of a lead on another node. Only this node's clock is asked: what counts is that the file
// changes. A look that took long itself says nothing, for the lead waited for the same file system.
class Silence {
 public:
  Silence(std::string path, const Clock& clock) : path_(std::move(path)), clock_(clock), changed_ns_(now()) {}

  std::int64_t look_ms() {
    const std::int64_t asked_ns = now();
    struct stat seen{};
    const bool there = ::stat(path_.c_str(), &seen) == 0;
    const std::pair<std::int64_t, std::int64_t> touched{seen.st_mtim.tv_sec, seen.st_mtim.tv_nsec};
    const bool slow = now() - asked_ns > slow_look_ms * 1'000'000;
    if (slow || (there && touched != touched_)) changed_ns_ = now();
    if (there) touched_ = touched;
    return (now() - changed_ns_) / 1'000'000;
  }

 private:
  std::int64_t now() const { return clock_.monotonic_ns(); }

  std::string path_;
  const Clock& clock_;
  std::pair<std::int64_t, std::int64_t> touched_;
  std::int64_t changed_ns_ = 0;
};

int exit_code_of(const JobRecord& record) {
  return record.outcome == "succeeded" || goes_on_elsewhere(record) ? 0 : 1;
}

// A lead that stands still while another one has done its work would hold the allocation until its wall time.
class Standstill {
 public:
  Standstill(pid_t lead, std::string record_path, const Clock& clock, std::int64_t interval_ms)
      : lead_(lead), record_path_(std::move(record_path)), clock_(clock), interval_ns_(interval_ms * 1'000'000) {
    next_look_ns_ = clock.monotonic_ns() + interval_ns_;
  }

  // The record of whoever has done it.
  std::optional<JobRecord> look() {
    if (clock_.monotonic_ns() < next_look_ns_) return std::nullopt;
    next_look_ns_ = clock_.monotonic_ns() + interval_ns_;
    const ProcessState state = process_state(lead_);
    const bool stands = state == ProcessState::stopped || state == ProcessState::blocked;
    const auto record = read_record(record_path_);
    const bool before = std::exchange(over_, stands && record.ok());
    return before && over_ ? std::optional(*record) : std::nullopt;
  }

 private:
  pid_t lead_;
  std::string record_path_;
  const Clock& clock_;
  std::int64_t interval_ns_, next_look_ns_ = 0;
  bool over_ = false;
};

// Until the lead that has taken over is done: its record is there, and its address gone. A signal that Slurm sends to
// the script means the job; the lead elsewhere gets its own.
int wait_for_other_lead(const Attempt& attempt, const AllocationInfo& job, Clock& clock, Logger& log,
                        const HolderPatience& patience) {
  const std::string address_path = lead_address_path(attempt.attempt_dir, job.restarts);
  const auto first = read_lead_address(address_path);
  const LeadEpoch epoch = first.ok() ? first->lead_epoch() : LeadEpoch(0);
  bool followed = false;
  Silence silence(address_path, clock);
  for (const Deadline takeover(clock, patience.takeover_ms);;) {
    const auto address = read_lead_address(address_path);
    followed = followed || (address.ok() && address->lead_epoch() > epoch) || epoch.number > 1;
    const std::int64_t silent_ms = silence.look_ms();
    const auto record = read_record(attempt.record_path(job.restarts));
    const bool done = !address.ok() && address.error().code == ErrorCode::not_found;
    if (record.ok() && (done || silent_ms > patience.silence_ms)) return exit_code_of(*record);
    // Who has taken over on a full disk cannot say so, and touches the former address.
    if (!record.ok() && !followed && takeover.passed() && silent_ms > patience.takeover_ms) {
      log.error("event=nobody_leads next=end_job");
      return 1;
    }
    if (!record.ok() && followed && silent_ms > patience.silence_ms) {
      log.error(format("event=nobody_leads_any_more silent_s={} next=end_job", silent_ms / 1000));
      return 1;
    }
    if (wait_for_stop_signal(holder_look_ms) == SIGTERM) return 1;
  }
}

}  // namespace

Result<int> hold_lead(const std::vector<std::string>& lead, const Attempt& attempt, const AllocationInfo& job,
                      Clock& clock, Logger& log, const HolderPatience& patience) {
  block_stop_signals();
  SpawnSpec spec;
  spec.argv = lead;
  LH_TRY(const pid_t pid, spawn(spec));
  Standstill standstill(pid, attempt.record_path(job.restarts), clock, patience.stopped_ms);
  for (;;) {
    LH_TRY(const auto exit, poll_exit(pid));
    if (exit) {
      if (exit->signal == 0 && exit->code != lead_superseded_exit) return exit->code;
      log.warn("event=lead_gone status='" + exit->text() + "' next=wait_for_another");
      return wait_for_other_lead(attempt, job, clock, log, patience);
    }
    if (const auto record = standstill.look()) {
      log.warn("event=lead_stands_still why='another one has written the record' next=end_it");
      ::kill(pid, SIGKILL);
      return exit_code_of(*record);
    }
    if (const int signal_number = wait_for_stop_signal(holder_look_ms); signal_number != 0) ::kill(pid, signal_number);
  }
}

}  // namespace longhaul
