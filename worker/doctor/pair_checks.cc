#include "worker/doctor/pair_checks.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <vector>

#include "base/files/files.h"
#include "base/files/owned_files.h"
#include "base/process/process.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "worker/protocol/wire/connection.h"
#include "worker/protocol/wire/host_address.h"

namespace longhaul {
namespace {

constexpr int race_rounds = 200;
constexpr std::int64_t connect_ms = 5'000, pair_look_ms = 20;
constexpr std::string_view greeting = "longhaul doctor\n";
constexpr std::size_t torn_bytes = 4096;

class PairChecks {
 public:
  PairChecks(const PairOrder& order, Clock& clock) : order_(order), clock_(clock) {}

  Value run() {
    auto listener = Listener::open_in(order_.ports, true);
    found_.set("port", listener.ok() ? listener->port() : 0);
    if (!listener.ok()) found_.set("no_port", listener.error().message());
    measure_file_clock();
    if (!leave_secret()) found_.set("no_secret", true);
    Value own = Value::make_table();
    own.set("host", host_name());
    own.set("port", listener.ok() ? listener->port() : 0);
    Value& addresses = own.set("addresses", Value::make_array());
    for (const std::string& one : own_addresses()) addresses.push_back(one);
    const std::int64_t began_ns = clock_.monotonic_ns();
    if (!leave("ready", to_json(own)) || !all_have("ready")) return std::move(found_);
    found_.set("met", true);
    found_.set("seen_after_s", static_cast<double>(clock_.monotonic_ns() - began_ns) * 1e-9);
    if (listener.ok()) connect_to_all(*listener);
    look_at_secrets();
    if (leave("race", "") && all_have("race")) race();
    (void)leave("raced", "");
    return std::move(found_);
  }

 private:
  std::string name(const std::string& what, int of) const {
    return join_path(order_.folder, format("{}-{}", what, of));
  }
  bool leave(const std::string& what, const std::string& text) const {
    return write_file_renamed(name(what, order_.self), text).ok();
  }
  // The folder is read anew: a network file system may remember for a while that a file was not there.
  bool all_have(const std::string& what) const {
    for (const Deadline deadline(clock_, order_.meet_ms);; clock_.sleep_ms(pair_look_ms)) {
      const auto names = list_directory(order_.folder);
      int there = 0;
      for (const std::string& one : names.ok() ? *names : std::vector<std::string>())
        if (starts_with(one, what + "-") && one.find_first_not_of("0123456789", what.size() + 1) == std::string::npos)
          ++there;
      if (there >= order_.count) return true;
      if (deadline.passed()) return false;
    }
  }

  void measure_file_clock() {
    const std::string path = name("clock", order_.self);
    const std::int64_t before_ms = clock_.wall_ms();
    struct stat file{};
    if (!write_file_renamed(path, "x").ok() || ::stat(path.c_str(), &file) != 0) return;
    const std::int64_t after_ms = clock_.wall_ms();
    const std::int64_t at_ms =
        static_cast<std::int64_t>(file.st_mtim.tv_sec) * 1'000 + file.st_mtim.tv_nsec / 1'000'000;
    // What lies between the two moments is no difference of clocks.
    found_.set("file_clock_off_ms",
               at_ms < before_ms ? at_ms - before_ms : std::max<std::int64_t>(0, at_ms - after_ms));
  }

  bool leave_secret() const {
    const auto fd = create_new_file(name("secret", order_.self), 0600);
    return fd.ok() && write_to(fd->get(), "secret", "secret").ok();
  }

  void look_at_secrets() {
    Value& modes = found_.set("modes", Value::make_array());
    for (int of = 0; of < order_.count; ++of) {
      struct stat file{};
      if (::stat(name("secret", of).c_str(), &file) != 0) continue;
      Value one = Value::make_table();
      one.set("of", of);
      one.set("mode", format("{:04o}", file.st_mode & 07777));
      one.set("ok", (file.st_mode & 07777) == 0600 && file.st_uid == ::geteuid());
      modes.push_back(std::move(one));
    }
  }

  struct Try {
    int to = 0;
    std::string host, how;
    FileDescriptor socket;
    std::string heard;
    bool over = false, ok = false;
    std::string why;
  };

  std::vector<Try> begin_tries() const {
    std::vector<Try> tries;
    for (int of = 0; of < order_.count; ++of) {
      if (of == order_.self) continue;
      const auto text = read_file(name("ready", of));
      const auto other = text.ok() ? parse_json(*text, "ready") : Result<Value>(text.error());
      if (!other.ok()) continue;
      const int port = static_cast<int>(other->get_integer("port"));
      std::vector<std::string> ways = {other->get_string("host")};
      if (const Value* addresses = other->find("addresses"); addresses && addresses->is_array())
        for (const Value& one : addresses->as_array())
          if (one.is_string()) ways.push_back(one.as_string());
      for (std::size_t i = 0; i < ways.size(); ++i) {
        Try one;
        one.to = of, one.host = ways[0], one.how = i == 0 ? "name" : ways[i];
        auto socket = port > 0 ? connect_to(ways[i], port)
                               : Result<FileDescriptor>(make_error(ErrorCode::unavailable, "it does not listen"));
        if (socket.ok())
          one.socket = std::move(*socket);
        else
          one.over = true, one.why = socket.error().message();
        tries.push_back(std::move(one));
      }
    }
    return tries;
  }

  // Greets whoever comes, and hears the greetings of the others; goes on greeting until all are done.
  void connect_to_all(Listener& listener) {
    std::vector<Try> tries = begin_tries();
    bool reported = false;
    for (const Deadline mine(clock_, connect_ms), all(clock_, order_.meet_ms);;) {
      greet_all(listener);
      for (Try& one : tries)
        if (!one.over) hear(one, mine.passed());
      const bool done = std::all_of(tries.begin(), tries.end(), [](const Try& one) { return one.over; });
      if (done && !reported) reported = leave("connected", "");
      if ((done && others_connected()) || all.passed()) break;
      clock_.sleep_ms(pair_look_ms);
    }
    Value& connects = found_.set("connects", Value::make_array());
    for (const Try& one : tries) {
      Value result = Value::make_table();
      result.set("to", one.to);
      result.set("host", one.host);
      result.set("how", one.how);
      result.set("ok", one.ok);
      if (!one.ok) result.set("why", one.why);
      connects.push_back(std::move(result));
    }
  }

  bool others_connected() const {
    for (int of = 0; of < order_.count; ++of)
      if (!file_exists(name("connected", of))) return false;
    return true;
  }

  static void greet_all(Listener& listener) {
    for (;;) {
      const auto socket = listener.accept();
      if (!socket.ok() || !socket->valid()) return;
      (void)::send(socket->get(), greeting.data(), greeting.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    }
  }

  static void hear(Try& one, bool too_late) {
    char buffer[64];
    const ssize_t n = ::recv(one.socket.get(), buffer, sizeof buffer, MSG_DONTWAIT);
    if (n > 0) one.heard.append(buffer, static_cast<std::size_t>(n));
    one.ok = one.heard == greeting;
    const bool waits =
        n > 0 || (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOTCONN || errno == EINTR));
    one.over = one.ok || too_late || !waits;
    if (!one.over || one.ok) return;
    one.why = waits   ? format("no answer within {} s: a firewall, perhaps", connect_ms / 1'000)
              : n < 0 ? std::strerror(errno)
                      : "closed without a greeting: another program listens there";
  }

  // All at the same time, again and again: of every name exactly one may win.
  void race() {
    int exclusive = 0, linked = 0, torn = 0;
    const std::string own = name("own", order_.self), shared = join_path(order_.folder, "renamed");
    const std::string content(torn_bytes, static_cast<char>('a' + order_.self % 26));
    const bool made = write_file_atomic(own, content).ok();
    for (int i = 0; i < race_rounds; ++i) {
      if (create_new_file(join_path(order_.folder, format("exclusive.{}", i)), 0600).ok()) ++exclusive;
      if (made && ::link(own.c_str(), join_path(order_.folder, format("linked.{}", i)).c_str()) == 0) ++linked;
      const std::string beside = format("{}.{}", shared, order_.self);
      if (write_file_renamed(beside, content).ok()) (void)::rename(beside.c_str(), shared.c_str());
      const auto read = read_file(shared);
      if (!read.ok() || !is_whole(*read)) ++torn;
    }
    found_.set("exclusive", exclusive);
    found_.set("linked", linked);
    found_.set("torn", torn);
    found_.set("rounds", race_rounds);
  }

  static bool is_whole(const std::string& text) {
    return text.size() == torn_bytes && text.find_first_not_of(text[0]) == std::string::npos;
  }

  const PairOrder& order_;
  Clock& clock_;
  Value found_ = Value::make_table();
};

}  // namespace

Value check_pair(const PairOrder& order, Clock& clock) {
  return PairChecks(order, clock).run();
}

}  // namespace longhaul
