// Addresses of hosts as text, of IPv4 and IPv6 alike: "10.0.0.7", "fd00::7", "fe80::1%eth0".
#pragma once

#include <string>
#include <vector>

#include "base/error/result.h"

namespace longhaul {

// Where the other end of a connected TCP socket is. An empty address: it is gone. An IPv4 host that came to a socket of
// both kinds is named as itself ("10.0.0.7", not "::ffff:10.0.0.7").
struct PeerAddress {
  std::string address;
  int port = 0;
};
PeerAddress peer_of(int socket);

// The addresses of a host in the order of the system's preference, each once. unavailable: nobody knows the name. May
// take as long as the name service takes.
Result<std::vector<std::string>> resolve_host(const std::string& name);

// By which other hosts may reach this one: of all its network devices that are up, without those of loopback and those
// that count on one cable only (link-local). Empty where they cannot be read.
std::vector<std::string> own_addresses();

// Of this host alone: nobody else reaches it there.
bool is_loopback_address(const std::string& address);

}  // namespace longhaul
