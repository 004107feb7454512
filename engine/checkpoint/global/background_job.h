// One piece of work at a time on a thread of its own. The owner starts it, asks whether it is done, and takes its
// outcome; whatever happens to the owner, the thread ends before it does.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "base/error/result.h"
#include "base/system/clock.h"

namespace longhaul {

class BackgroundJob {
 public:
  using Body = std::function<Status(const std::atomic<bool>& cancelled)>;

  // low_priority: the thread makes way for those that compute. On a node whose cores are all in use, one of theirs that
  // loses its core would make all of them wait at the end of a parallel loop.
  explicit BackgroundJob(bool low_priority = false) : low_priority_(low_priority) {}
  ~BackgroundJob();  // asks the work to be given up, and waits for it
  BackgroundJob(const BackgroundJob&) = delete;
  BackgroundJob& operator=(const BackgroundJob&) = delete;

  // Nothing may be under way or not yet taken. What `body` touches belongs to it until take().
  void start(Body body);
  // The same without a thread: done on return.
  void run_here(const Body& body);

  bool done() const { return done_.load(std::memory_order_acquire); }
  // Until done; ErrorCode::timeout if it is not by then (it goes on).
  Status wait(const Clock& clock, std::int64_t deadline_ms);
  // Of a job that is done.
  Status take();
  // Asks the work to be given up, waits for its end and forgets its outcome; then the next may begin. timeout as above:
  // what the work touches still belongs to it.
  Status give_up(const Clock& clock, std::int64_t deadline_ms);

 private:
  bool low_priority_;
  std::thread thread_;
  std::atomic<bool> done_{true}, cancelled_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  Status outcome_;
};

}  // namespace longhaul
