// Whether the kernel of a host answers: a TCP connection to a port of it is taken or refused, where a dead host, or one
// that is cut off, says nothing. A firewall that drops what it does not know makes a living host silent, too: silence
// says something only of a host that has answered while it was known to live (worker/lead/agents/host_answers.h).
#pragma once

#include <cstdint>
#include <string>

#include "base/files/files.h"
#include "base/system/clock.h"
#include "worker/protocol/wire/host_address.h"

namespace longhaul {

class HostProbe {
 public:
  HostProbe(PeerAddress at, const Clock& clock) : at_(std::move(at)), clock_(clock) {}
  // Knocks again where the last time is long enough ago, and takes what has come. Never waits.
  void look();
  bool answers() const;                                   // within the last second
  bool has_answered() const { return answered_ns_ > 0; }  // ever
  int knocks() const { return knocks_; }                  // so far

 private:
  void knock();

  PeerAddress at_;
  const Clock& clock_;
  FileDescriptor socket_;
  std::int64_t knocked_ns_ = 0, answered_ns_ = 0;
  int knocks_ = 0;
};

}  // namespace longhaul
