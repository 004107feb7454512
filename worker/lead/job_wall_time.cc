// When the scheduler ends the job, and what its lead does about it: it asks at the start, and again where something
// outside has stopped the ranks.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/text/text.h"
#include "contracts/events/fault_event.h"
#include "worker/lead/failover/stop_signal.h"
#include "worker/lead/job_lead.h"

namespace longhaul {
namespace {

constexpr std::int64_t answer_ms = 5'000;  // of the scheduler, while no rank works

}  // namespace

// Without an answer the ranks still learn of the end by the signal before it.
void JobLead::ask_end_time() {
  if (lead_.job.scheduler_job.empty()) return;
  if (const auto slurm = scheduler_times(); slurm.ok()) {
    timeouts_->take(*slurm);
    slurm_ports_ = slurm->srun_ports;
  }
  deadline_.ask();
  if (deadline_.is_known()) timeouts_->ends_in(static_cast<double>(deadline_.left_ms()) * 1e-3);
  pass_on_end_time();
}

void JobLead::look_at_end_time() {
  if (deadline_.poll() && wall_time_over_) deadline_.allow_what_is_left();
  pass_on_end_time();
}

// While no rank works; messages of agents are read all the same, or they would look for another lead.
void JobLead::await_end_time() {
  for (const Deadline deadline(clock_, answer_ms); deadline_.is_asking() && !deadline.passed();) {
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
  return event_facts_.stopped() == stopped_as_asked || status.signal == SIGTERM || status.code == 128 + SIGTERM;
}

// A job that is preempted is not worked in any more, however long its grace time is: somebody waits for the nodes.
bool JobLead::is_being_taken(const LaunchOutcome& end) {
  if (end.ok() || cancelled_ || time_limit_passed_ || !may_be_stopped_from_outside(end)) return false;
  deadline_.ask_again();
  await_end_time();
  for (const Deadline deadline(clock_, deadline_.ends_now() ? JobDeadline::ends_now_ms : 0);
       !deadline.passed() && !stop_signal_pending(); clock_.sleep_ms(10))
    look_at_agents();
  if (stop_signal_pending()) return false;  // the job itself: it is said otherwise, and Slurm may queue it again
  const bool soon = deadline_.is_known() && deadline_.left_ms() < launch_takes_ms_;
  if (!deadline_.preempted() && !(soon && was_asked_to_stop(end))) return false;
  log_.warn(format("event=stopped_from_outside left_s={} a_launch_takes_s={} preempted={} next=record",
                   deadline_.left_ms() / 1000, launch_takes_ms_ / 1000, deadline_.preempted()));
  return true;
}

// Nothing that is waited for now would be of use: the job is asked to end, or has no time left, or is another lead's.
bool JobLead::ends_soon() const {
  return superseded() || cancelled_ || deadline_.leaves_no_time() || stop_signal_pending();
}

void JobLead::pass_on_end_time() {
  if (!deadline_.take_moved()) return;
  watch_.must_end_by(deadline_.end_by_ns());
  if (agents_) agents_->must_end_by(deadline_.end_by_ns());
}

}  // namespace longhaul
