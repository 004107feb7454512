#include "worker/protocol/wire/host_probe.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <memory>

namespace longhaul {
namespace {

constexpr std::int64_t knock_every_ns = 250'000'000, answer_holds_ns = 1'000'000'000;

}  // namespace

void HostProbe::knock() {
  knocked_ns_ = clock_.monotonic_ns();
  ++knocks_;
  addrinfo numbers{};
  numbers.ai_family = AF_UNSPEC, numbers.ai_socktype = SOCK_STREAM, numbers.ai_flags = AI_NUMERICHOST;  // asks nobody
  addrinfo* found = nullptr;
  if (at_.address.empty() ||
      ::getaddrinfo(at_.address.c_str(), std::to_string(at_.port).c_str(), &numbers, &found) != 0)
    return;
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, ::freeaddrinfo);
  socket_.reset(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket_.valid()) return;
  const int code = ::connect(socket_.get(), found->ai_addr, found->ai_addrlen) == 0 ? 0 : errno;
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
