// When the scheduler ends the job, and what its lead does about it: it asks at the start, and again where something
// outside has stopped the ranks.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/text/text.h"
#include "contracts/events/fault_event.h"
#include "worker/lead/failover/job_end_time.h"
#include "worker/lead/failover/stop_signal.h"
#include "worker/lead/job_lead.h"

namespace longhaul {
namespace {

// The same end is the same second, by the scheduler's clock; by two hosts' clocks it may be a minute off.
constexpr std::int64_t end_moves_ms = 1'000, end_moves_unsure_ms = 60'000;
constexpr std::int64_t answer_ms = 5'000;           // of the scheduler, while no rank works
constexpr std::int64_t ends_now_ms = 3'000;         // a job with so little left is being ended: SIGTERM is on its way
constexpr std::int64_t record_in_time_ms = 10'000;  // between the ranks' end by force and the job's

}  // namespace

// Without an answer the ranks still hear of the end by the signal before it.
void JobLead::ask_end_time() {
  if (lead_.job.scheduler_job.empty()) return;
  if (const auto slurm = scheduler_times(); slurm.ok()) {
    timeouts_->take(*slurm);
    slurm_ports_ = slurm->srun_ports;
  }
  const auto times = job_times(lead_.job.scheduler_job);
  if (!times.ok()) return log_.info("event=end_time_not_known why='" + times.error().message() + "'");
  (void)take_end_time(*times);
  if (end_by_ns_ > 0) timeouts_->ends_in(static_cast<double>(end_left_ms()) * 1e-3);
}

// Whether the end comes sooner than it was to: by a preemption with its grace time, mostly.
bool JobLead::take_end_time(const JobTimes& times) {
  const std::int64_t elapsed_ms = (clock_.monotonic_ns() - begun_ns_) / 1'000'000;
  const auto left = time_left(times, elapsed_ms, clock_.wall_ms());
  if (!left) return false;
  if (left->clock_off_ms != 0)
    log_.warn(
        format("event=clock_off host={} off_s={} next=count_from_the_start", own_node(), left->clock_off_ms / 1000));
  const bool sooner = scheduler_end_ms_ > 0 ? times.end_ms < scheduler_end_ms_ - end_moves_ms
                                            : end_by_ns_ > 0 && left->ms < end_left_ms() - end_moves_unsure_ms;
  scheduler_end_ms_ = times.end_ms;
  if (sooner) log_.warn(format("event=end_moved_up left_s={}", left->ms / 1000));
  // Without any time for it this lead ends nothing by itself: Slurm may queue the same job again.
  preempted_ = preempted_ || (sooner && left->ms > ends_now_ms);
  must_end_in(left->ms);
  return sooner;
}

void JobLead::look_at_end_time() {
  const auto said = end_question_.look();
  if (!said) return;
  if (!said->ok()) return log_.info("event=end_time_not_known why='" + said->error().message() + "'");
  if (take_end_time(**said) && wall_time_over_) allow_what_is_left();
}

// Between the ranks' SIGTERM and their SIGKILL: as long as the job has, less what the record takes.
void JobLead::allow_what_is_left() {
  grace_s_ = lead_.attempt.grace_s;
  if (end_by_ns_ > 0) grace_s_ = std::max(grace_s_, static_cast<double>(end_left_ms() - record_in_time_ms) * 1e-3);
  must_end_in(static_cast<std::int64_t>(grace_s_ * 1000));
}

// While no rank works; agents are heard all the same, or they would look for another lead.
void JobLead::await_end_time() {
  for (const Deadline deadline(clock_, answer_ms); end_question_.under_way() && !deadline.passed();) {
    if (const int signal = wait_for_stop_signal(10); signal != 0) {
      ::kill(::getpid(), signal);  // taken by whoever asks for it next
      break;
    }
    look_at_agents();
    look_at_end_time();
  }
}

// Slurm's SIGTERM of a preemption goes to the ranks alone (slurm.conf(5), GraceTime), and so does a person's scancel
// --signal. The engine says that it was asked to stop; of other programs an end by itself may be that.
bool JobLead::may_be_stopped_from_outside(const LaunchOutcome& end) const {
  if (lead_.job.scheduler_job.empty() || !growing_.empty()) return false;
  if (end.finding && end.finding->kind != GuardFinding::Kind::rank_ended) return false;
  return was_asked_to_stop(end) || !has_own_program(lead_.task);
}

bool JobLead::was_asked_to_stop(const LaunchOutcome& end) const {
  const ExitStatus& status = end.launch.status;
  return told_.stopped() == stopped_as_asked || status.signal == SIGTERM || status.code == 128 + SIGTERM;
}

// A job that is preempted is not worked in any more, however long its grace time is: somebody waits for the nodes.
bool JobLead::is_being_taken(const LaunchOutcome& end) {
  if (end.ok() || cancelled_ || time_limit_passed_ || !may_be_stopped_from_outside(end)) return false;
  end_question_.begin();
  await_end_time();
  const bool ends_now = end_by_ns_ > 0 && end_left_ms() <= ends_now_ms;
  for (const Deadline deadline(clock_, ends_now ? ends_now_ms : 0); !deadline.passed() && !told_to_stop_waits();
       clock_.sleep_ms(10))
    look_at_agents();
  if (told_to_stop_waits()) return false;  // the job itself: it is said otherwise, and Slurm may queue it again
  const bool soon = end_by_ns_ > 0 && end_left_ms() < launch_takes_ms_;
  if (!preempted_ && !(soon && was_asked_to_stop(end))) return false;
  log_.warn(format("event=stopped_from_outside left_s={} a_launch_takes_s={} preempted={} next=record",
                   end_left_ms() / 1000, launch_takes_ms_ / 1000, preempted_));
  return true;
}

// Nothing that is waited for now would be of use: the job is told to end, or has no time left, or is another lead's.
bool JobLead::ends_soon() const {
  const bool out_of_time = end_by_ns_ > 0 && clock_.monotonic_ns() > end_by_ns_ - record_in_time_ms * 1'000'000;
  return superseded_ || cancelled_ || out_of_time || told_to_stop_waits();
}

// The earliest that was told counts.
void JobLead::must_end_in(std::int64_t left_ms) {
  const std::int64_t end_ns = clock_.monotonic_ns() + left_ms * 1'000'000;
  if (end_by_ns_ > 0 && end_by_ns_ <= end_ns) return;
  end_by_ns_ = end_ns;
  pass_on_end_time();
}

std::int64_t JobLead::end_left_ms() const {
  return (end_by_ns_ - clock_.monotonic_ns()) / 1'000'000;
}

void JobLead::pass_on_end_time() {
  watch_.must_end_by(end_by_ns_);
  if (agents_) agents_->must_end_by(end_by_ns_);
}

}  // namespace longhaul
