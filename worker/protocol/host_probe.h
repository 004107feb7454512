// Whether the kernel of a host answers: a TCP connection to a port of it is taken or refused, where a dead host, or one
// that is cut off, says nothing. A firewall that drops what it does not know makes a living host silent, too: silence
// proves nothing.
#pragma once

#include <cstdint>
#include <string>

#include "base/clock.h"
#include "base/files.h"

namespace longhaul {

// Where the other end of a connected TCP socket is. An empty address: it is gone, or no IPv4.
struct PeerAddress {
  std::string address;
  int port = 0;
};
PeerAddress peer_of(int socket);

class HostProbe {
 public:
  HostProbe(PeerAddress at, const Clock& clock) : at_(std::move(at)), clock_(clock) {}
  // Knocks again where the last time is long enough ago, and takes what has come. Never waits.
  void look();
  bool answers() const;  // within the last second

 private:
  void knock();

  PeerAddress at_;
  const Clock& clock_;
  FileDescriptor socket_;
  std::int64_t knocked_ns_ = 0, answered_ns_ = 0;
};

}  // namespace longhaul
