#include "worker/protocol/connection.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "base/text.h"

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
  wanted.ai_family = AF_INET, wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int code = ::getaddrinfo(address.c_str(), std::to_string(port).c_str(), &wanted, &found); code != 0)
    return make_error(ErrorCode::unavailable, "no address of " + address + ": " + ::gai_strerror(code));
  return AddressInfo(found, ::freeaddrinfo);
}

}  // namespace

Result<std::string> resolve_host(const std::string& name) {
  LH_TRY(const AddressInfo found, address_info(name, 0));
  char text[INET_ADDRSTRLEN] = {};
  const auto* at = reinterpret_cast<const sockaddr_in*>(found->ai_addr);
  if (!::inet_ntop(AF_INET, &at->sin_addr, text, sizeof text)) return socket_error("no address of " + name);
  return std::string(text);
}

Result<FileDescriptor> connect_to(const std::string& address, int port) {
  LH_TRY(const AddressInfo found, address_info(address, port));
  FileDescriptor fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return socket_error("cannot make a socket");
  if (::connect(fd.get(), found->ai_addr, found->ai_addrlen) != 0 && errno != EINPROGRESS)
    return socket_error(format("cannot connect to {}:{}", address, port));
  return fd;
}

Result<Listener> Listener::open(int port, bool everywhere) {
  FileDescriptor fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return socket_error("cannot make a socket");
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(static_cast<std::uint16_t>(port));
  at.sin_addr.s_addr = htonl(everywhere ? INADDR_ANY : INADDR_LOOPBACK);
  if (::bind(fd.get(), reinterpret_cast<sockaddr*>(&at), sizeof at) != 0)
    return socket_error(format("cannot take port {}", port));
  if (::listen(fd.get(), SOMAXCONN) != 0) return socket_error("cannot listen");
  socklen_t length = sizeof at;
  if (::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&at), &length) != 0) return socket_error("no port");
  return Listener(std::move(fd), ntohs(at.sin_port));
}

Result<Listener> Listener::take(FileDescriptor socket) {
  sockaddr_in at{};
  socklen_t length = sizeof at;
  int listens = 0;
  socklen_t size = sizeof listens;
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || listens == 0 ||
      ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&at), &length) != 0 || at.sin_family != AF_INET)
    return make_error(ErrorCode::invalid_input, "what was handed over is no socket that listens");
  return Listener(std::move(socket), ntohs(at.sin_port));
}

Result<FileDescriptor> Listener::accept() {
  for (;;) {
    FileDescriptor fd(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (fd.valid() || errno == EAGAIN || errno == EWOULDBLOCK) return fd;
    if (errno != EINTR && errno != ECONNABORTED) return socket_error("cannot accept");
  }
}

}  // namespace longhaul
