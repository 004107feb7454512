#include "worker/protocol/host_probe.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>

namespace longhaul {
namespace {

constexpr std::int64_t knock_every_ns = 250'000'000, answer_holds_ns = 1'000'000'000;

}  // namespace

PeerAddress peer_of(int socket) {
  sockaddr_in at{};
  socklen_t size = sizeof at;
  char text[INET_ADDRSTRLEN] = {};
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(&at), &size) != 0 || at.sin_family != AF_INET ||
      !::inet_ntop(AF_INET, &at.sin_addr, text, sizeof text))
    return {};
  return {text, ntohs(at.sin_port)};
}

void HostProbe::knock() {
  knocked_ns_ = clock_.monotonic_ns();
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<std::uint16_t>(at_.port));
  if (::inet_pton(AF_INET, at_.address.c_str(), &to.sin_addr) != 1) return;
  socket_.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket_.valid()) return;
  const int code = ::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0 ? 0 : errno;
  if (code == EINPROGRESS) return;
  if (code == 0 || code == ECONNREFUSED) answered_ns_ = knocked_ns_;
  socket_.reset();
}

void HostProbe::look() {
  if (socket_.valid()) {
    pollfd fd{socket_.get(), POLLOUT, 0};
    if (::poll(&fd, 1, 0) == 1) {
      int code = 0;
      socklen_t size = sizeof code;
      const bool known = ::getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &code, &size) == 0;
      if (known && (code == 0 || code == ECONNREFUSED)) answered_ns_ = clock_.monotonic_ns();
      socket_.reset();
    }
  }
  if (knocked_ns_ == 0 || clock_.monotonic_ns() - knocked_ns_ >= knock_every_ns) knock();
}

bool HostProbe::answers() const {
  return answered_ns_ > 0 && clock_.monotonic_ns() - answered_ns_ < answer_holds_ns;
}

}  // namespace longhaul
