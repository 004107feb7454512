#include "worker/protocol/wire/host_address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "base/text/text.h"

namespace longhaul {
namespace {

constexpr std::size_t own_addresses_max = 16;

struct NumericAddress {
  std::string address;
  int port = 0;
};

// As numbers, with the device of a link-local one; an IPv4 address in IPv6's clothes as itself.
NumericAddress numeric(const sockaddr* at, socklen_t size) {
  sockaddr_in plain{};
  if (at->sa_family == AF_INET6) {
    const auto* six = reinterpret_cast<const sockaddr_in6*>(at);
    if (IN6_IS_ADDR_V4MAPPED(&six->sin6_addr)) {
      plain.sin_family = AF_INET;
      plain.sin_port = six->sin6_port;
      std::memcpy(&plain.sin_addr, six->sin6_addr.s6_addr + 12, 4);
      at = reinterpret_cast<const sockaddr*>(&plain), size = sizeof plain;
    }
  }
  char host[NI_MAXHOST] = {}, port[NI_MAXSERV] = {};
  if (::getnameinfo(at, size, host, sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV) != 0) return {};
  return {host, std::atoi(port)};
}

bool counts_elsewhere(const ifaddrs& device) {
  if (!device.ifa_addr || (device.ifa_flags & IFF_UP) == 0 || (device.ifa_flags & IFF_LOOPBACK) != 0) return false;
  if (device.ifa_addr->sa_family == AF_INET) return true;
  return device.ifa_addr->sa_family == AF_INET6 &&
         !IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(device.ifa_addr)->sin6_addr);
}

}  // namespace

PeerAddress peer_of(int socket) {
  sockaddr_storage at{};
  socklen_t size = sizeof at;
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(&at), &size) != 0) return {};
  if (at.ss_family != AF_INET && at.ss_family != AF_INET6) return {};
  NumericAddress peer = numeric(reinterpret_cast<const sockaddr*>(&at), size);
  return {std::move(peer.address), peer.port};
}

Result<std::vector<std::string>> resolve_host(const std::string& name) {
  addrinfo wanted{};
  wanted.ai_family = AF_UNSPEC, wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int code = ::getaddrinfo(name.c_str(), nullptr, &wanted, &found); code != 0)
    return make_error(ErrorCode::unavailable, "no address of " + name + ": " + ::gai_strerror(code));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, ::freeaddrinfo);
  std::vector<std::string> addresses;
  for (const addrinfo* one = found; one; one = one->ai_next) {
    std::string address = numeric(one->ai_addr, one->ai_addrlen).address;
    const bool known = std::find(addresses.begin(), addresses.end(), address) != addresses.end();
    if (!address.empty() && !known) addresses.push_back(std::move(address));
  }
  if (addresses.empty()) return make_error(ErrorCode::unavailable, "no address of " + name);
  return addresses;
}

std::vector<std::string> own_addresses() {
  ifaddrs* devices = nullptr;
  if (::getifaddrs(&devices) != 0) return {};
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(devices, ::freeifaddrs);
  std::vector<std::string> addresses;
  for (const ifaddrs* one = devices; one && addresses.size() < own_addresses_max; one = one->ifa_next)
    if (counts_elsewhere(*one)) {
      const bool four = one->ifa_addr->sa_family == AF_INET;
      std::string address = numeric(one->ifa_addr, four ? sizeof(sockaddr_in) : sizeof(sockaddr_in6)).address;
      if (!address.empty()) addresses.push_back(std::move(address));
    }
  return addresses;
}

bool is_loopback_address(const std::string& address) {
  return starts_with(address, "127.") || address == "::1";
}

}  // namespace longhaul
