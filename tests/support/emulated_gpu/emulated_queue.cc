#include "tests/support/emulated_gpu/emulated_queue.h"

#include <atomic>
#include <cstring>
#include <memory>
#include <utility>

namespace longhaul::testing {
namespace {

class EmulatedMark final : public QueueMark {
 public:
  explicit EmulatedMark(std::shared_ptr<std::atomic<bool>> reached) : reached_(std::move(reached)) {}
  bool reached() override { return reached_->load(std::memory_order_acquire); }

 private:
  std::shared_ptr<std::atomic<bool>> reached_;
};

}  // namespace

EmulatedQueue::EmulatedQueue(std::function<void(const void*, std::int64_t)> copied)
    : copied_(std::move(copied)), thread_([this] { work(); }) {}

EmulatedQueue::~EmulatedQueue() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

CUstream_st* EmulatedQueue::stream() const {
  const EmulatedStream* stream = this;
  return reinterpret_cast<CUstream_st*>(const_cast<EmulatedStream*>(stream));
}

void EmulatedQueue::copy(const void* from, void* to, std::int64_t bytes) {
  if (copied_) copied_(to, bytes);
  enqueue([=] { std::memcpy(to, from, static_cast<std::size_t>(bytes)); });
}
void EmulatedQueue::run(std::function<void(CUstream_st*)> ask) {
  enqueue([ask = std::move(ask), this] { ask(stream()); });
}
std::unique_ptr<QueueMark> EmulatedQueue::mark() {
  auto reached = std::make_shared<std::atomic<bool>>(false);
  enqueue([reached] { reached->store(true, std::memory_order_release); });
  return std::make_unique<EmulatedMark>(std::move(reached));
}
bool EmulatedQueue::idle() {
  const std::lock_guard lock(mutex_);
  return work_.empty() && !busy_;
}

void EmulatedQueue::enqueue(std::function<void()> work) {
  const std::lock_guard lock(mutex_);
  work_.push_back(std::move(work));
  changed_.notify_all();
}

void EmulatedQueue::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ends_ || !work_.empty(); });
    if (work_.empty()) return;
    const std::function<void()> next = std::move(work_.front());
    work_.pop_front();
    busy_ = true;
    lock.unlock();
    next();
    lock.lock();
    busy_ = false;
  }
}

}  // namespace longhaul::testing
