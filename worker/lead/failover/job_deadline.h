// When the job is ended by force, as its lead knows it, and how long ranks have between their SIGTERM and their SIGKILL
// because of that. The scheduler is asked at the start and again where something outside has stopped the ranks; of
// several ends the earliest counts.
//
// Times are CLOCK_MONOTONIC of this host in ns, lengths in ms or s as their names say. One thread. It signals nobody
// and writes nothing: who leads passes on what take_moved() says. An answer that does not come is logged and leaves
// everything as it was.
#pragma once

#include <cstdint>
#include <string>

#include "base/process/log.h"
#include "base/system/clock.h"
#include "worker/lead/failover/end_time_request.h"
#include "worker/lead/failover/job_end_time.h"

namespace longhaul {

class JobDeadline {
 public:
  static constexpr std::int64_t ends_now_ms = 3'000;  // a job with so little left is being ended: SIGTERM is on its way
  static constexpr std::int64_t record_in_time_ms = 10'000;  // between the ranks' end by force and the job's

  // `scheduler_job`: as of EndTimeRequest. `clock` and `log` are borrowed.
  JobDeadline(const std::string& scheduler_job, const Clock& clock, Logger& log);

  // `begun_ns`: when the first lead of this job began. `grace_s`: by the attempt. `host`: of this lead, for the log.
  void begin(std::int64_t begun_ns, double grace_s, const std::string& host);
  // As another lead of this job knew it; 0: not known.
  void take_over(std::int64_t end_by_ns);

  // Asks the scheduler and waits for its answer, five seconds at most; without one the ranks still learn of the end by
  // the signal before it. ask_again() does not wait: poll() takes the answer, and says whether the end comes sooner
  // than it was to.
  void ask();
  void ask_again() { request_.begin(); }
  bool is_asking() const { return request_.under_way(); }
  bool poll();
  // What ask() and poll() make of an answer. true: the end comes sooner, by a preemption with its grace time, mostly.
  bool take(const JobTimes& times);

  // Ranks were signalled: they have the attempt's grace, or as long as the job has, less what the record takes.
  void allow_grace();
  void allow_what_is_left();

  bool is_known() const { return end_by_ns_ > 0; }
  std::int64_t end_by_ns() const { return end_by_ns_; }  // when the ranks are ended by force; 0: not known
  std::int64_t left_ms() const { return (end_by_ns_ - clock_.monotonic_ns()) / 1'000'000; }
  bool leaves_no_time() const;  // for anything but the record
  bool ends_now() const { return is_known() && left_ms() <= ends_now_ms; }
  double grace_s() const { return grace_s_; }
  bool preempted() const { return preempted_; }  // the scheduler has moved the job's end up
  // Whether the end has moved since it was asked last: ranks and agents are to know.
  bool take_moved();

 private:
  void must_end_in(std::int64_t left_ms);

  const std::string job_;
  const Clock& clock_;
  Logger& log_;
  EndTimeRequest request_;
  std::string host_;
  std::int64_t begun_ns_ = 0;
  std::int64_t scheduler_end_ms_ = 0;  // Unix time as the scheduler said it last; 0: not known
  std::int64_t end_by_ns_ = 0;
  double attempt_grace_s_ = 10, grace_s_ = 10;
  bool preempted_ = false, moved_ = false;
};

}  // namespace longhaul
