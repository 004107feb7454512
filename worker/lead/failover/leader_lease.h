// A lead that has taken over shows that it lives, to the process of the job's script on another node: it touches the
// file of its address. A thread of its own, because a lead may be busy for minutes with one thing (an artifact to read,
// the controller's last round); it ends with this object, and with the process. On a full disk the address may not be
// written when the lead takes over: that is tried again with each sign until it is done, and meanwhile the former one
// is touched. An address that somebody has removed is written again, for without it the process of the script ends the
// job; but not beside a record, for then another lead is done (succession.h). So is one of an earlier lead, whose own
// writing a slow file system held back until now.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "worker/protocol/wire/lead_address.h"

namespace longhaul {

inline constexpr std::int64_t leader_lease_interval_ms = 5'000;

struct LeaderLeaseOptions {
  std::string path;  // of the address
  std::int64_t interval_ms = leader_lease_interval_ms;
  std::optional<LeadAddress> address = {};  // none: a file that is not there is not made
  bool written = true;                      // the address is what the file says
  std::string record_path = {};             // of the job's end; "": an address that is gone stays so
};

class LeaderLease {
 public:
  explicit LeaderLease(LeaderLeaseOptions options);
  ~LeaderLease();
  LeaderLease(const LeaderLease&) = delete;
  LeaderLease& operator=(const LeaderLease&) = delete;

 private:
  void run();
  bool must_write(bool gone) const;
  bool names_earlier_lead() const;

  LeaderLeaseOptions options_;  // of the thread
  std::mutex mutex_;
  std::condition_variable wake_;
  bool over_ = false;  // under mutex_
  std::thread thread_;
};

}  // namespace longhaul
