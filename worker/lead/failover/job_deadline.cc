#include "worker/lead/failover/job_deadline.h"

#include <algorithm>
#include <utility>

#include "base/text/text.h"

namespace longhaul {
namespace {

// The same end is the same second, by the scheduler's clock; by two hosts' clocks it may be a minute off.
constexpr std::int64_t end_moves_ms = 1'000, end_moves_unsure_ms = 60'000;

}  // namespace

JobDeadline::JobDeadline(const std::string& scheduler_job, const Clock& clock, Logger& log)
    : job_(scheduler_job), clock_(clock), log_(log), request_(scheduler_job, clock) {}

void JobDeadline::begin(std::int64_t begun_ns, double grace_s, const std::string& host) {
  begun_ns_ = begun_ns, attempt_grace_s_ = grace_s_ = grace_s, host_ = host;
}

void JobDeadline::take_over(std::int64_t end_by_ns) {
  end_by_ns_ = end_by_ns;
  moved_ = end_by_ns > 0;
}

void JobDeadline::ask() {
  const auto times = job_times(job_);
  if (!times.ok()) return log_.info("event=end_time_not_known why='" + times.error().message() + "'");
  (void)take(*times);
}

bool JobDeadline::poll() {
  const auto said = request_.look();
  if (!said) return false;
  if (!said->ok()) log_.info("event=end_time_not_known why='" + said->error().message() + "'");
  return said->ok() && take(**said);
}

bool JobDeadline::take(const JobTimes& times) {
  const std::int64_t elapsed_ms = (clock_.monotonic_ns() - begun_ns_) / 1'000'000;
  const auto left = time_left(times, elapsed_ms, clock_.wall_ms());
  if (!left) return false;
  if (left->clock_off_ms != 0)
    log_.warn(format("event=clock_off host={} off_s={} next=count_from_the_start", host_, left->clock_off_ms / 1000));
  const bool sooner = scheduler_end_ms_ > 0 ? times.end_ms < scheduler_end_ms_ - end_moves_ms
                                            : is_known() && left->ms < left_ms() - end_moves_unsure_ms;
  scheduler_end_ms_ = times.end_ms;
  if (sooner) log_.warn(format("event=end_moved_up left_s={}", left->ms / 1000));
  // Without any time for it this lead ends nothing by itself: Slurm may queue the same job again.
  preempted_ = preempted_ || (sooner && left->ms > ends_now_ms);
  must_end_in(left->ms);
  return sooner;
}

void JobDeadline::allow_grace() {
  grace_s_ = attempt_grace_s_;
  must_end_in(static_cast<std::int64_t>(grace_s_ * 1000));
}

void JobDeadline::allow_what_is_left() {
  grace_s_ = attempt_grace_s_;
  if (is_known()) grace_s_ = std::max(grace_s_, static_cast<double>(left_ms() - record_in_time_ms) * 1e-3);
  must_end_in(static_cast<std::int64_t>(grace_s_ * 1000));
}

bool JobDeadline::leaves_no_time() const {
  return is_known() && clock_.monotonic_ns() > end_by_ns_ - record_in_time_ms * 1'000'000;
}

bool JobDeadline::take_moved() {
  return std::exchange(moved_, false);
}

void JobDeadline::must_end_in(std::int64_t left_ms) {
  const std::int64_t end_ns = clock_.monotonic_ns() + left_ms * 1'000'000;
  if (is_known() && end_by_ns_ <= end_ns) return;
  end_by_ns_ = end_ns;
  moved_ = true;
}

}  // namespace longhaul
