#include "worker/lead/failover/leader_lease.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <utility>

#include "base/files/file_query.h"

namespace longhaul {

LeaderLease::LeaderLease(LeaderLeaseOptions options) : options_(std::move(options)), thread_([this] { run(); }) {}

LeaderLease::~LeaderLease() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

// Whether the record is there is asked after the address was not.
bool LeaderLease::must_write(bool gone) const {
  if (!options_.address) return false;
  if (!options_.written) return true;
  if (!gone && !names_earlier_lead()) return false;
  return !options_.record_path.empty() && is_surely_absent(options_.record_path);
}

bool LeaderLease::names_earlier_lead() const {
  const auto named = read_lead_address(options_.path);
  return named.ok() && named->lead_epoch() < options_.address->lead_epoch();
}

void LeaderLease::run() {
  std::unique_lock lock(mutex_);
  while (!over_) {
    lock.unlock();
    const bool gone = ::utimensat(AT_FDCWD, options_.path.c_str(), nullptr, 0) != 0 && errno == ENOENT;
    if (must_write(gone) && write_lead_address(options_.path, *options_.address).ok()) options_.written = true;
    lock.lock();
    wake_.wait_for(lock, std::chrono::milliseconds(options_.interval_ms), [this] { return over_; });
  }
}

}  // namespace longhaul
