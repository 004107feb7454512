#include "worker/lead/life_sign.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <chrono>
#include <utility>

namespace longhaul {

LifeSign::LifeSign(std::string path, std::int64_t interval_ms, std::optional<LeadAddress> unwritten)
    : path_(std::move(path)), interval_ms_(interval_ms), unwritten_(std::move(unwritten)), thread_([this] { run(); }) {}

LifeSign::~LifeSign() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  told_.notify_all();
  thread_.join();
}

// A file that is not there is not made: the address goes when the lead is done.
void LifeSign::run() {
  std::unique_lock lock(mutex_);
  while (!over_) {
    lock.unlock();
    if (unwritten_ && write_lead_address(path_, *unwritten_).ok()) unwritten_.reset();
    (void)::utimensat(AT_FDCWD, path_.c_str(), nullptr, 0);
    lock.lock();
    told_.wait_for(lock, std::chrono::milliseconds(interval_ms_), [this] { return over_; });
  }
}

}  // namespace longhaul
