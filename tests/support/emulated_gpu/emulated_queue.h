// A queue of an emulated GPU: a thread that does what was asked for, one after the other. Operations of an emulated GPU
// are done when they are asked for, so there is nothing to follow.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "engine/core/device/device_queue.h"
#include "tests/support/emulated_gpu/emulated_stream.h"

namespace longhaul::testing {

class EmulatedQueue final : public DeviceQueue, public EmulatedStream {
 public:
  // copied: called for every copy when it is asked for; may be empty.
  explicit EmulatedQueue(std::function<void(const void* to, std::int64_t bytes)> copied = {});
  ~EmulatedQueue() override;
  EmulatedQueue(const EmulatedQueue&) = delete;
  EmulatedQueue& operator=(const EmulatedQueue&) = delete;

  CUstream_st* stream() const override;
  void follow_operations() override {}
  void copy(const void* from, void* to, std::int64_t bytes) override;
  void run(std::function<void(CUstream_st*)> ask) override;
  std::unique_ptr<QueueMark> mark() override;
  bool idle() override;
  void enqueue(std::function<void()> work) override;

 private:
  void work();
  std::function<void(const void*, std::int64_t)> copied_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
  bool busy_ = false, ends_ = false;
  std::thread thread_;
};

}  // namespace longhaul::testing
