#include "worker/protocol/wire/connection.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "base/digest/hash.h"
#include "base/text/text.h"

namespace longhaul {
namespace {

constexpr std::size_t backlog_max = std::size_t{8} << 20;

Error socket_error(const std::string& what) {
  return make_error(ErrorCode::unavailable, what + ": " + std::strerror(errno));
}

// A message is small and wanted at once; a host that is cut off is noticed by the messages that do not come.
void set_options(int fd) {
  const int on = 1;
  (void)::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  // After a cut that heals, what was lost is sent again in moments, and not after twice as long each time.
  (void)::setsockopt(fd, IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, &on, sizeof on);
  const unsigned limit = unanswered_ms;
  (void)::setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &limit, sizeof limit);
}

}  // namespace

Connection::Connection(FileDescriptor socket, WireSession session)
    : socket_(std::move(socket)), session_(std::move(session)) {
  set_options(socket_.get());
}

short Connection::wanted_events() const {
  return static_cast<short>(POLLIN | (backlog() > 0 || session_.has_outgoing() ? POLLOUT : 0));
}

Status Connection::broken() {
  const bool no_answer = errno == ETIMEDOUT || errno == EHOSTUNREACH || errno == ENETUNREACH;
  broken_ = no_answer
                ? make_error(ErrorCode::timeout, std::string("the other side does not answer: ") + std::strerror(errno))
                : socket_error("the other side is gone");
  return broken_;
}

Status Connection::send_what_goes() {
  LH_CHECK(broken_);
  unsent_ += session_.outgoing();
  while (sent_ < unsent_.size()) {
    const ssize_t n =
        ::send(socket_.get(), unsent_.data() + sent_, unsent_.size() - sent_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOTCONN)) break;
    if (n < 0) return broken();
    sent_ += static_cast<std::size_t>(n);
  }
  if (sent_ == unsent_.size()) unsent_.clear(), sent_ = 0;
  if (backlog() > backlog_max)
    return make_error(ErrorCode::unavailable, format("{} wait for an other side that takes nothing",
                                                     human_bytes(static_cast<double>(backlog()))));
  return {};
}

Result<std::vector<WireFrame>> Connection::pump() {
  std::vector<WireFrame> frames;
  LH_CHECK(send_what_goes());
  char buffer[16384];
  for (;;) {
    const ssize_t n = ::recv(socket_.get(), buffer, sizeof buffer, MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOTCONN)) break;
    if (n < 0) return broken().error();
    if (n == 0) return make_error(ErrorCode::unavailable, "the other side has closed the connection");
    LH_TRY(std::vector<WireFrame> more, session_.take({buffer, static_cast<std::size_t>(n)}));
    for (WireFrame& frame : more) frames.push_back(std::move(frame));
  }
  LH_CHECK(send_what_goes());
  return frames;
}

namespace {

using AddressInfo = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

Result<AddressInfo> address_info(const std::string& address, int port) {
  addrinfo wanted{};
  wanted.ai_family = AF_UNSPEC, wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int code = ::getaddrinfo(address.c_str(), std::to_string(port).c_str(), &wanted, &found); code != 0)
    return make_error(ErrorCode::unavailable, "no address of " + address + ": " + ::gai_strerror(code));
  return AddressInfo(found, ::freeaddrinfo);
}

// Of IPv4 and IPv6, for IPv6 alone has room for both.
struct BoundAddress {
  sockaddr_storage at{};
  socklen_t size = sizeof(sockaddr_in);
};

BoundAddress listening_address(int family, int port, bool everywhere) {
  BoundAddress bound;
  if (family == AF_INET6) {
    auto* six = reinterpret_cast<sockaddr_in6*>(&bound.at);
    six->sin6_family = AF_INET6;
    six->sin6_port = htons(static_cast<std::uint16_t>(port));
    six->sin6_addr = in6addr_any;
    bound.size = sizeof *six;
    return bound;
  }
  auto* four = reinterpret_cast<sockaddr_in*>(&bound.at);
  four->sin_family = AF_INET;
  four->sin_port = htons(static_cast<std::uint16_t>(port));
  four->sin_addr.s_addr = htonl(everywhere ? INADDR_ANY : INADDR_LOOPBACK);
  return bound;
}

// The port that it listens at. conflict: that port is taken.
Result<int> bind_and_listen(int fd, int family, int port, bool everywhere) {
  const int both = 0;
  if (family == AF_INET6 && ::setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &both, sizeof both) != 0)
    return socket_error("a socket of IPv6 that takes IPv4 as well");
  BoundAddress bound = listening_address(family, port, everywhere);
  const auto* at = reinterpret_cast<const sockaddr*>(&bound.at);
  if (::bind(fd, at, bound.size) != 0 || ::listen(fd, SOMAXCONN) != 0) {
    const bool taken = errno == EADDRINUSE;
    Error failed = socket_error(format("cannot take port {}", port));
    if (taken) failed.code = ErrorCode::conflict;
    return failed;
  }
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&bound.at), &bound.size) != 0) return socket_error("no port");
  const bool six = bound.at.ss_family == AF_INET6;
  return ntohs(six ? reinterpret_cast<const sockaddr_in6*>(&bound.at)->sin6_port
                   : reinterpret_cast<const sockaddr_in*>(&bound.at)->sin_port);
}

}  // namespace

Result<FileDescriptor> connect_to(const std::string& address, int port) {
  LH_TRY(const AddressInfo found, address_info(address, port));
  Error failed = make_error(ErrorCode::unavailable, "no address of " + address);
  for (const addrinfo* one = found.get(); one; one = one->ai_next) {
    FileDescriptor fd(::socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd.valid()) {
      failed = socket_error("cannot make a socket");
      continue;
    }
    if (::connect(fd.get(), one->ai_addr, one->ai_addrlen) == 0 || errno == EINPROGRESS) return fd;
    failed = socket_error(format("cannot connect to {}:{}", address, port));
  }
  return failed;
}

// A host without IPv6 says so at the socket or at the address: then IPv4 alone.
Result<Listener> Listener::open(int port, bool everywhere) {
  Error failed = make_error(ErrorCode::unavailable, "cannot make a socket");
  for (const int family : {AF_INET6, AF_INET}) {
    if (family == AF_INET6 && !everywhere) continue;  // loopback is reached by IPv4
    FileDescriptor fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd.valid()) {
      failed = socket_error("cannot make a socket");
      continue;
    }
    const auto listens = bind_and_listen(fd.get(), family, port, everywhere);
    if (listens.ok()) return Listener(std::move(fd), *listens);
    failed = listens.error();
    if (failed.code == ErrorCode::conflict) break;  // IPv4 alone would divide the port with whoever has it
  }
  return failed;
}

Result<Listener> Listener::open_in(const PortRange& ports, bool everywhere) {
  if (ports.any()) return open(0, everywhere);
  LH_TRY(const std::string random, random_hex(4));
  const auto count = static_cast<unsigned>(ports.count());
  const auto first = static_cast<unsigned>(std::stoul(random.substr(0, 7), nullptr, 16)) % count;
  Error failed;
  for (unsigned tried = 0; tried < count; ++tried) {
    auto listener = open(ports.first + static_cast<int>((first + tried) % count), everywhere);
    if (listener.ok()) return listener;
    failed = listener.error();
    if (failed.code != ErrorCode::conflict) return failed;
  }
  return make_error(ErrorCode::unavailable, "every port of " + ports.text() + " is taken on this host",
                    "a wider network.ports in the site file, as wide as the firewall allows");
}

Result<Listener> Listener::take(FileDescriptor socket) {
  BoundAddress bound;
  bound.size = sizeof bound.at;
  int listens = 0;
  socklen_t size = sizeof listens;
  const bool known = ::getsockopt(socket.get(), SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens != 0 &&
                     ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&bound.at), &bound.size) == 0;
  if (known && bound.at.ss_family == AF_INET)
    return Listener(std::move(socket), ntohs(reinterpret_cast<const sockaddr_in*>(&bound.at)->sin_port));
  if (known && bound.at.ss_family == AF_INET6)
    return Listener(std::move(socket), ntohs(reinterpret_cast<const sockaddr_in6*>(&bound.at)->sin6_port));
  return make_error(ErrorCode::invalid_input, "what was handed over is no socket that listens");
}

Result<FileDescriptor> Listener::accept() {
  for (;;) {
    FileDescriptor fd(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (fd.valid() || errno == EAGAIN || errno == EWOULDBLOCK) return fd;
    if (errno != EINTR && errno != ECONNABORTED) return socket_error("cannot accept");
  }
}

}  // namespace longhaul
