#include "worker/protocol/node/host_exchange.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

namespace longhaul {
namespace {

constexpr std::size_t buffer_bytes = std::size_t{256} << 10;
constexpr std::int64_t incoming_ms = 2 * HostExchange::partner_ms;  // its clock and ours began at other moments

// Bytes that moved; 0: none now; below 0: the other side is gone.
ssize_t moved_by(ssize_t result) {
  if (result > 0) return result;
  if (result < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR || errno == ENOTCONN)) return 0;
  return -1;
}

}  // namespace

HostExchange::HostExchange(std::string token, Listener listener, Clock& clock)
    : token_(std::move(token)), listener_(std::move(listener)), clock_(clock), buffer_(buffer_bytes, 'x') {}

Result<std::unique_ptr<HostExchange>> HostExchange::open(std::string token, Clock& clock, const PortRange& ports) {
  if (token.empty()) return make_error(ErrorCode::invalid_input, "an exchange without a token");
  LH_TRY(Listener listener, Listener::open_in(ports, true));
  return std::unique_ptr<HostExchange>(new HostExchange(std::move(token), std::move(listener), clock));
}

void HostExchange::begin(std::vector<ExchangePartner> partners) {
  partners_ = std::move(partners);
  begun_ = true;
}

void HostExchange::work(std::int64_t ms) {
  const Deadline deadline(clock_, ms);
  do {
    if (step()) continue;
    std::vector<pollfd> waits = {{listener_.descriptor(), POLLIN, 0}};
    for (const Incoming& one : incoming_) waits.push_back({one.socket.get(), POLLIN, 0});
    if (sending_) {
      const bool all_sent = sending_->token_sent && sending_->sent == block_bytes;
      waits.push_back({sending_->socket.get(), static_cast<short>(all_sent ? POLLIN : POLLIN | POLLOUT), 0});
    }
    (void)::poll(waits.data(), waits.size(), static_cast<int>(std::clamp<std::int64_t>(deadline.left_ms(), 0, 20)));
  } while (!deadline.passed());
}

bool HostExchange::step() {
  bool moved = false;
  for (std::size_t i = 0; i < incoming_max; ++i) {
    auto socket = listener_.accept();
    if (!socket.ok() || !socket->valid()) break;
    let_in(std::move(*socket));
    moved = true;
  }
  std::erase_if(incoming_, [&](Incoming& from) { return !take(from, moved); });
  if (begun_ && !sending_ && next_ < partners_.size()) start_next();
  if (sending_) moved = send() || moved;
  return moved;
}

void HostExchange::let_in(FileDescriptor socket) {
  if (incoming_.size() == incoming_max) {
    const auto nameless = std::find_if(incoming_.begin(), incoming_.end(),
                                       [&](const Incoming& one) { return one.token.size() < token_.size(); });
    if (nameless == incoming_.end()) return;
    incoming_.erase(nameless);
  }
  incoming_.push_back({std::move(socket), clock_.monotonic_ns(), "", 0});
}

// Whether the connection stays.
bool HostExchange::take(Incoming& from, bool& moved) {
  const std::size_t missing = token_.size() - from.token.size();
  const std::size_t wanted = missing > 0 ? missing : std::min(buffer_.size(), block_bytes - from.taken);
  const ssize_t got = moved_by(::recv(from.socket.get(), buffer_.data(), wanted, MSG_DONTWAIT));
  if (got < 0) return false;
  moved = moved || got > 0;
  const std::int64_t age_ms = (clock_.monotonic_ns() - from.since_ns) / 1'000'000;
  if (age_ms > incoming_ms || (got == 0 && missing > 0 && age_ms > token_ms)) return false;
  if (missing > 0) {
    from.token.append(buffer_.data(), static_cast<std::size_t>(got));
    return token_.compare(0, from.token.size(), from.token) == 0;
  }
  from.taken += static_cast<std::size_t>(got);
  if (from.taken < block_bytes) return true;
  from.taken = 0;
  const char confirmed = 1;
  return ::send(from.socket.get(), &confirmed, 1, MSG_NOSIGNAL | MSG_DONTWAIT) == 1;
}

void HostExchange::start_next() {
  const ExchangePartner& partner = partners_[next_];
  auto socket = connect_to(partner.address, partner.port);
  sending_ = std::make_unique<Outgoing>();
  sending_->since_ns = clock_.monotonic_ns();
  if (!socket.ok()) return end_partner();
  sending_->socket = std::move(*socket);
}

void HostExchange::end_partner() {
  figures_.push_back({partners_[next_].host, sending_->best_mb_per_s});
  sending_.reset();
  ++next_;
}

bool HostExchange::send() {
  Outgoing& to = *sending_;
  const std::int64_t now = clock_.monotonic_ns();
  if (now - to.since_ns > partner_ms * 1'000'000) return end_partner(), true;
  const std::size_t all = to.token_sent ? block_bytes : token_.size();
  if (to.sent < all) {
    const char* from = to.token_sent ? buffer_.data() : token_.data() + to.sent;
    const std::size_t wanted = to.token_sent ? std::min(buffer_.size(), all - to.sent) : all - to.sent;
    const ssize_t put = moved_by(::send(to.socket.get(), from, wanted, MSG_NOSIGNAL | MSG_DONTWAIT));
    if (put < 0) return end_partner(), true;
    to.sent += static_cast<std::size_t>(put);
    if (!to.token_sent && to.sent == all) to.token_sent = true, to.sent = 0, to.block_since_ns = now;
    return put > 0;
  }
  char confirmed = 0;
  const ssize_t got = moved_by(::recv(to.socket.get(), &confirmed, 1, MSG_DONTWAIT));
  if (got < 0) return end_partner(), true;
  if (got == 0) return false;
  const double seconds = static_cast<double>(std::max<std::int64_t>(1, now - to.block_since_ns)) * 1e-9;
  to.best_mb_per_s = std::max(to.best_mb_per_s, 1e-6 * static_cast<double>(block_bytes) / seconds);
  to.sent = 0, to.block_since_ns = now;
  if (++to.confirmed == blocks) end_partner();
  return true;
}

}  // namespace longhaul
