#include "engine/checkpoint/global/background_job.h"

#ifdef __linux__
#include <sys/resource.h>
#include <unistd.h>
#endif

#include <chrono>
#include <utility>

namespace longhaul {

namespace {

// The calling thread.
void make_way() {
#ifdef __linux__
  constexpr int nice = 10;
  [[maybe_unused]] const int result = ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), nice);
#endif
}

}  // namespace

BackgroundJob::~BackgroundJob() {
  cancelled_.store(true, std::memory_order_relaxed);
  if (thread_.joinable()) thread_.join();
}

void BackgroundJob::start(Body body) {
  LH_ASSERT(done() && !thread_.joinable(), "one job at a time");
  done_.store(false, std::memory_order_relaxed);
  thread_ = std::thread([this, body = std::move(body)] {
    if (low_priority_) make_way();
    Status outcome = body(cancelled_);
    const std::lock_guard lock(mutex_);
    outcome_ = std::move(outcome);
    done_.store(true, std::memory_order_release);
    changed_.notify_all();
  });
}

void BackgroundJob::run_here(const Body& body) {
  LH_ASSERT(done() && !thread_.joinable(), "one job at a time");
  outcome_ = body(cancelled_);
}

Status BackgroundJob::wait(const Clock& clock, std::int64_t deadline_ms) {
  const Deadline deadline(clock, deadline_ms);
  std::unique_lock lock(mutex_);
  while (!done()) {
    if (deadline.passed())
      return make_error(ErrorCode::timeout,
                        "work in the background is not done after " + std::to_string(deadline_ms / 1000) + " s");
    changed_.wait_for(lock, std::chrono::milliseconds(20));
  }
  return {};
}

Status BackgroundJob::take() {
  LH_ASSERT(done(), "taken before it is done");
  if (thread_.joinable()) thread_.join();
  return std::exchange(outcome_, Status());
}

Status BackgroundJob::give_up(const Clock& clock, std::int64_t deadline_ms) {
  cancelled_.store(true, std::memory_order_relaxed);
  LH_CHECK(wait(clock, deadline_ms));
  [[maybe_unused]] const Status forgotten = take();
  cancelled_.store(false, std::memory_order_relaxed);
  return {};
}

}  // namespace longhaul
