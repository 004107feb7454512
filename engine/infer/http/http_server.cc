#include "engine/infer/http/http_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/files/files.h"
#include "base/text/text.h"

namespace longhaul {
namespace {

constexpr std::int64_t linger_ms = 2'000;     // after our last byte, for the client's end of the connection
constexpr std::size_t read_bytes = 64 << 10;  // per connection and round: nobody is served twice before all were once
constexpr std::size_t early_bytes_max = 64 << 10;  // of requests sent before the answer to the first
constexpr std::size_t reading_budget_bodies = 64;  // bodies of the largest size that may be half read at a time

// Ends poll() from another thread.
class Waker {
 public:
  Waker() : fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}
  int fd() const { return fd_.get(); }
  void wake() const {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(fd_.get(), &one, sizeof one);  // full: it wakes anyway
  }
  void clear() const {
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t got = ::read(fd_.get(), &count, sizeof count);
  }

 private:
  FileDescriptor fd_;
};

// What the connection and the handler share about one answer.
struct ExchangeState {
  ExchangeState(std::shared_ptr<Waker> the_waker, bool with_chunks, bool with_keep_alive, std::size_t the_output_max)
      : waker(std::move(the_waker)), chunked(with_chunks), keep_alive(with_keep_alive), output_max(the_output_max) {}

  const std::shared_ptr<Waker> waker;
  const bool chunked;
  const bool keep_alive;
  const std::size_t output_max;

  std::mutex mutex;  // guards what follows
  std::string output;
  bool begun = false, finished = false, gone = false, overflow = false;
  bool streaming = false;
  std::function<void()> on_gone;

  void leave() {  // the connection is over
    std::function<void()> callback;
    {
      std::lock_guard lock(mutex);
      gone = true;
      if (!finished) callback = std::move(on_gone);
      on_gone = nullptr;
      output.clear();
    }
    if (callback) callback();
  }
};

class Exchange final : public HttpExchange {
 public:
  explicit Exchange(std::shared_ptr<ExchangeState> state) : state_(std::move(state)) {}
  ~Exchange() override {
    std::lock_guard lock(state_->mutex);
    if (state_->finished) return;
    if (!state_->begun) state_->output = format_response({500, "text/plain", {}, "no answer was given\n"}, false);
    end();
  }

  void respond(const HttpResponse& response) override {
    std::lock_guard lock(state_->mutex);
    if (state_->begun || state_->gone) return;
    state_->begun = true;
    state_->output = format_response(response, state_->keep_alive);
    end();
  }
  void begin_stream(const HttpResponse& head) override {
    std::lock_guard lock(state_->mutex);
    if (state_->begun || state_->gone) return;
    state_->begun = state_->streaming = true;
    state_->output = format_stream_head(head, state_->chunked, state_->keep_alive);
    state_->waker->wake();
  }
  void write(std::string_view bytes) override {
    std::lock_guard lock(state_->mutex);
    if (!state_->streaming || state_->finished || state_->gone) return;
    if (state_->output.size() + bytes.size() > state_->output_max) state_->overflow = true;
    if (!state_->overflow) state_->output += state_->chunked ? format_chunk(bytes) : std::string(bytes);
    state_->waker->wake();
  }
  void finish() override {
    std::lock_guard lock(state_->mutex);
    if (!state_->streaming || state_->finished || state_->gone) return;
    if (state_->chunked) state_->output += last_chunk;
    end();
  }
  bool gone() const override {
    std::lock_guard lock(state_->mutex);
    return state_->gone;
  }
  void on_gone(std::function<void()> callback) override {
    {
      std::lock_guard lock(state_->mutex);
      if (!state_->gone) {
        state_->on_gone = std::move(callback);
        return;
      }
    }
    callback();
  }

 private:
  void end() {  // under the mutex
    state_->finished = true;
    state_->on_gone = nullptr;
    state_->waker->wake();
  }
  std::shared_ptr<ExchangeState> state_;
};

struct Connection {
  enum class Phase { reading, handling, writing, lingering, closed };

  Connection(int descriptor, const HttpLimits& limits, std::int64_t now)
      : fd(descriptor), reader(limits), since_ns(now) {}
  FileDescriptor fd;
  HttpReader reader;
  Phase phase = Phase::reading;
  bool request_began = false;  // some bytes of a request are here
  bool admitted = false;
  bool keep_alive = true;
  bool input_ended = false;
  std::int64_t since_ns;         // of idleness, of the request's first byte, or of lingering
  std::int64_t progress_ns = 0;  // when output last moved
  std::string early;             // input that came while a request was being handled
  std::string output;            // empty: nothing is waiting
  std::size_t sent = 0;          // of `output`
  std::shared_ptr<ExchangeState> exchange;
};

class PollServer final : public HttpServer {
 public:
  PollServer(const Clock& clock, HttpServerSettings settings, HttpHandlers handlers, int listen_fd, int port)
      : clock_(clock),
        settings_(std::move(settings)),
        handlers_(std::move(handlers)),
        port_(port),
        waker_(std::make_shared<Waker>()),
        listen_fd_(listen_fd) {}
  ~PollServer() override { stop(); }

  int port() const override { return port_; }
  void start() override {
    thread_ = std::thread([this] { run(); });
  }
  bool drain(std::int64_t deadline_ms) override {
    draining_ = true;
    waker_->wake();
    const Deadline deadline(clock_, deadline_ms);
    std::unique_lock lock(mutex_);
    while (counters_.connections > 0 && !deadline.passed()) changed_.wait_for(lock, std::chrono::milliseconds(20));
    return counters_.connections == 0;
  }
  void stop() override {
    stopping_ = true;
    waker_->wake();
    if (thread_.joinable()) thread_.join();
  }
  HttpCounters counters() const override {
    std::lock_guard lock(mutex_);
    return counters_;
  }

 private:
  using Phase = Connection::Phase;

  void run();
  void accept_new();
  void read_from(Connection& c);
  void take_input(Connection& c, std::string_view bytes);
  void follow_reader(Connection& c);
  void pump(Connection& c);
  void write_to(Connection& c);
  void answer_done(Connection& c);
  void check_deadlines(Connection& c);
  void refuse(Connection& c, const HttpResponse& response);
  void close(Connection& c);
  bool evict_oldest_reader();
  int timeout_ms() const;
  std::int64_t now() const { return clock_.monotonic_ns(); }
  template <class F>
  void count(F change) {
    std::lock_guard lock(mutex_);
    change(counters_);
  }

  const Clock& clock_;
  const HttpServerSettings settings_;
  const HttpHandlers handlers_;
  const int port_;
  const std::shared_ptr<Waker> waker_;
  std::atomic<bool> draining_{false}, stopping_{false};
  std::thread thread_;

  // Only the server's thread.
  FileDescriptor listen_fd_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::int64_t accept_again_ns_ = 0;  // after the process ran out of descriptors

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  HttpCounters counters_;
};

void PollServer::run() {
  std::vector<pollfd> polls;
  while (!stopping_) {
    if (draining_) listen_fd_.reset();
    polls.clear();
    polls.push_back({waker_->fd(), POLLIN, 0});
    const bool accepting = listen_fd_.valid() && now() >= accept_again_ns_;
    polls.push_back({accepting ? listen_fd_.get() : -1, POLLIN, 0});
    for (const auto& c : connections_) {
      short events = c->output.empty() ? 0 : POLLOUT;
      if (!c->input_ended && c->early.size() < early_bytes_max) events = static_cast<short>(events | POLLIN);
      polls.push_back({c->fd.get(), events, 0});
    }
    ::poll(polls.data(), polls.size(), timeout_ms());
    if (polls[0].revents != 0) waker_->clear();
    for (std::size_t i = 0; i < connections_.size(); ++i) {
      if ((polls[i + 2].revents & (POLLIN | POLLERR | POLLHUP)) != 0) read_from(*connections_[i]);
    }
    for (const auto& c : connections_) {
      pump(*c);
      if (!c->output.empty()) write_to(*c);
      answer_done(*c);
      check_deadlines(*c);
    }
    std::size_t reading = 0;
    for (const auto& c : connections_) reading += c->phase == Phase::reading ? c->reader.buffered_bytes() : 0;
    if (reading > reading_budget_bodies * settings_.limits.body_max) evict_oldest_reader();
    std::erase_if(connections_, [](const auto& c) { return c->phase == Phase::closed; });
    if (accepting && polls[1].revents != 0) accept_new();
    count([&](HttpCounters& n) { n.connections = static_cast<int>(connections_.size()); });
    changed_.notify_all();
  }
  for (const auto& c : connections_) close(*c);
  connections_.clear();
  listen_fd_.reset();
  count([](HttpCounters& n) { n.connections = 0; });
  changed_.notify_all();
}

int PollServer::timeout_ms() const {
  std::int64_t soonest_ns = now() + 1'000'000'000;  // a round per second, whatever happens
  for (const auto& c : connections_) {
    std::int64_t due = soonest_ns;
    if (c->phase == Phase::reading) {
      due = c->since_ns + (c->request_began ? settings_.header_deadline_ms : settings_.idle_ms) * 1'000'000;
    } else if (c->phase == Phase::lingering) {
      due = c->since_ns + linger_ms * 1'000'000;
    }
    soonest_ns = std::min(soonest_ns, due);
  }
  return static_cast<int>(std::max<std::int64_t>(0, (soonest_ns - now()) / 1'000'000 + 1));
}

void PollServer::accept_new() {
  for (int i = 0; i < 64; ++i) {
    const int fd = ::accept4(listen_fd_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
      const int error = errno;
      if (error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS) evict_oldest_reader();
      if (error != EAGAIN && error != EINTR && error != ECONNABORTED) accept_again_ns_ = now() + 100'000'000;
      return;
    }
    const int on = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    auto connection = std::make_unique<Connection>(fd, settings_.limits, now());
    count([](HttpCounters& n) { ++n.accepted; });
    const bool full = static_cast<int>(connections_.size()) >= settings_.connections_max;
    if (full && !evict_oldest_reader()) refuse(*connection, handlers_.error(503, "too many connections"));
    connections_.push_back(std::move(connection));
  }
}

// Whoever has been sending its request, or nothing at all, for longest makes room.
bool PollServer::evict_oldest_reader() {
  Connection* oldest = nullptr;
  for (const auto& c : connections_) {
    if (c->phase != Phase::reading && c->phase != Phase::lingering) continue;
    if (oldest == nullptr || c->since_ns < oldest->since_ns) oldest = c.get();
  }
  if (oldest == nullptr) return false;
  close(*oldest);
  count([](HttpCounters& n) { ++n.dropped; });
  std::erase_if(connections_, [](const auto& c) { return c->phase == Phase::closed; });
  return true;
}

void PollServer::close(Connection& c) {
  if (c.phase == Phase::closed) return;
  c.phase = Phase::closed;
  if (c.exchange) c.exchange->leave();
  c.exchange.reset();
  c.fd.reset();
}

// Answers without a handler and ends the connection; input that still comes is thrown away, for a reset would destroy
// the answer on its way.
void PollServer::refuse(Connection& c, const HttpResponse& response) {
  c.output += format_response(response, false);
  c.progress_ns = now();
  c.keep_alive = false;
  c.phase = Phase::writing;
}

void PollServer::read_from(Connection& c) {
  if (c.phase == Phase::closed || c.input_ended) return;
  char buffer[read_bytes];
  const ssize_t got = ::recv(c.fd.get(), buffer, sizeof buffer, 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got > 0) return take_input(c, {buffer, static_cast<std::size_t>(got)});
  c.input_ended = true;
  // The client has closed, or will send nothing any more: nobody waits for the answer.
  if (c.phase == Phase::writing && got == 0) return;  // an answer that is complete is still delivered
  close(c);
}

void PollServer::take_input(Connection& c, std::string_view bytes) {
  switch (c.phase) {
    case Phase::handling: c.early.append(bytes); return;
    case Phase::writing:
      if (c.keep_alive) c.early.append(bytes);
      return;
    case Phase::reading: break;
    default: return;  // lingering: thrown away
  }
  if (!c.request_began) {
    c.request_began = true;
    c.since_ns = now();
  }
  c.reader.feed(bytes);
  follow_reader(c);
}

void PollServer::follow_reader(Connection& c) {
  const HttpReader::State state = c.reader.state();
  if (state == HttpReader::State::failed) return refuse(c, handlers_.error(c.reader.error_status(), c.reader.error()));
  if (state == HttpReader::State::head) return;
  if (!c.admitted) {
    c.admitted = true;
    if (draining_) return refuse(c, handlers_.error(503, "the server is shutting down"));
    if (const auto refusal = handlers_.admit(c.reader.request())) return refuse(c, *refusal);
    if (c.reader.expects_continue() && state == HttpReader::State::body) {
      c.output += "HTTP/1.1 100 Continue\r\n\r\n";
      c.progress_ns = now();
    }
  }
  if (state != HttpReader::State::done) return;
  HttpRequest request = c.reader.take();
  c.phase = Phase::handling;
  c.keep_alive = request.keep_alive && !draining_;
  const bool chunked = request.minor_version == 1;
  if (!chunked) c.keep_alive = false;  // HTTP/1.0: simple and safe
  c.exchange = std::make_shared<ExchangeState>(waker_, chunked, c.keep_alive, settings_.output_max);
  count([](HttpCounters& n) { ++n.requests; });
  handlers_.handle(std::move(request), std::make_shared<Exchange>(c.exchange));
}

// Moves what the handler has written to the connection.
void PollServer::pump(Connection& c) {
  if (c.phase != Phase::handling) return;
  bool overflow = false, finished = false;
  {
    std::lock_guard lock(c.exchange->mutex);
    if (c.output.empty() && !c.exchange->output.empty()) c.progress_ns = now();
    overflow = c.exchange->overflow ||
               (c.exchange->streaming && c.output.size() + c.exchange->output.size() > settings_.output_max);
    finished = c.exchange->finished;
    c.output += c.exchange->output;
    c.exchange->output.clear();
    if (finished && !c.exchange->begun) c.keep_alive = false;
  }
  if (overflow) {
    count([](HttpCounters& n) { ++n.dropped; });
    return close(c);
  }
  if (finished) {
    c.phase = Phase::writing;
    c.exchange.reset();
  }
}

void PollServer::write_to(Connection& c) {
  if (c.phase == Phase::closed) return;
  const ssize_t sent = ::send(c.fd.get(), c.output.data() + c.sent, c.output.size() - c.sent, MSG_NOSIGNAL);
  if (sent > 0) {
    c.sent += static_cast<std::size_t>(sent);
    c.progress_ns = now();
    if (c.sent == c.output.size() || c.sent > (1 << 20)) {
      c.output.erase(0, c.sent);
      c.sent = 0;
    }
  } else if (sent < 0 && errno != EAGAIN && errno != EINTR) {
    close(c);
  }
}

void PollServer::answer_done(Connection& c) {
  if (c.phase != Phase::writing || !c.output.empty()) return;
  c.since_ns = now();
  if (!c.keep_alive || draining_ || c.input_ended) {
    if (c.input_ended) return close(c);
    ::shutdown(c.fd.get(), SHUT_WR);
    c.phase = Phase::lingering;
    return;
  }
  c.phase = Phase::reading;
  c.request_began = c.admitted = false;
  const std::string early = std::exchange(c.early, {});
  if (!early.empty() || c.reader.started()) {
    c.request_began = true;
    c.reader.feed(early);
    follow_reader(c);
    waker_->wake();  // what the handler already answered is taken in the next round
  }
}

void PollServer::check_deadlines(Connection& c) {
  const auto passed = [&](std::int64_t since_ns, std::int64_t ms) { return now() - since_ns >= ms * 1'000'000; };
  if (c.phase == Phase::closed) return;
  if (!c.output.empty() && passed(c.progress_ns, settings_.write_stall_ms)) {
    count([](HttpCounters& n) { ++n.dropped; });
    return close(c);
  }
  if (c.phase == Phase::lingering && (passed(c.since_ns, linger_ms) || stopping_)) return close(c);
  if (c.phase != Phase::reading) return;
  if (!c.request_began) {
    if (draining_ || passed(c.since_ns, settings_.idle_ms)) close(c);
    return;
  }
  if (draining_) return refuse(c, handlers_.error(503, "the server is shutting down"));
  if (!passed(c.since_ns, settings_.header_deadline_ms)) return;
  count([](HttpCounters& n) { ++n.timeouts; });
  refuse(c, handlers_.error(408, format("the request did not arrive within {} ms", settings_.header_deadline_ms)));
}

}  // namespace

Result<int> listen_on(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  if (const int code = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found); code != 0) {
    return make_error(ErrorCode::invalid_input, format("host '{}': {}", host, ::gai_strerror(code)));
  }
  int last_error = 0;
  FileDescriptor fd;
  for (const addrinfo* a = found; a != nullptr; a = a->ai_next) {
    fd.reset(::socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    const int on = 1;
    ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (fd.valid() && ::bind(fd.get(), a->ai_addr, a->ai_addrlen) == 0 && ::listen(fd.get(), 256) == 0) break;
    last_error = errno;
    fd.reset();
  }
  ::freeaddrinfo(found);
  if (fd.valid()) return fd.release();
  Error error = errno_error(ErrorCode::unavailable, format("cannot listen on {} port {}", host, port), last_error);
  if (last_error == EADDRINUSE) error.hint = "another program has this port; choose another one, or 0 for a free one";
  return error;
}

Result<int> port_of(int listen_fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(listen_fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return errno_error(ErrorCode::internal, "getsockname", errno);
  }
  if (address.ss_family == AF_UNIX) return 0;
  return address.ss_family == AF_INET6 ? ntohs(reinterpret_cast<sockaddr_in6*>(&address)->sin6_port)
                                       : ntohs(reinterpret_cast<sockaddr_in*>(&address)->sin_port);
}

Result<std::unique_ptr<HttpServer>> HttpServer::create(const Clock& clock, HttpServerSettings settings,
                                                       HttpHandlers handlers) {
  FileDescriptor fd(settings.listen_fd);
  if (!fd.valid()) {
    LH_TRY(const int bound, listen_on(settings.host, settings.port));
    fd.reset(bound);
  }
  ::fcntl(fd.get(), F_SETFL, ::fcntl(fd.get(), F_GETFL) | O_NONBLOCK);
  LH_TRY(const int port, port_of(fd.get()));
  return std::unique_ptr<HttpServer>(
      std::make_unique<PollServer>(clock, std::move(settings), std::move(handlers), fd.release(), port));
}

}  // namespace longhaul
