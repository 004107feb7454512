#include "worker/agent/agent.h"

#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "base/files.h"
#include "base/hash.h"
#include "base/text.h"
#include "worker/agent/rank_pages.h"
#include "worker/protocol/beat_sockets.h"
#include "worker/protocol/connection.h"
#include "worker/protocol/lead_address.h"
#include "worker/protocol/node_report.h"
#include "worker/stacks/stack_dumps.h"

namespace longhaul {
namespace {

constexpr std::int64_t look_every_ms = 100;
constexpr std::int64_t report_at_least_every_ms = 500;
constexpr std::int64_t welcome_within_ms = 5'000;
constexpr std::int64_t retry_after_ms = 250;

double own_cpu_s() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

std::int64_t own_rss_kib() {
  const auto statm = read_file("/proc/self/statm");
  if (!statm.ok()) return 0;
  const std::vector<std::string> fields = split(*statm, ' ');
  return fields.size() < 2 ? 0 : std::atoll(fields[1].c_str()) * (::sysconf(_SC_PAGESIZE) / 1024);
}

class Agent {
 public:
  Agent(const AgentOptions& options, Clock& clock, const std::atomic<bool>& stop, Logger& log)
      : options_(options),
        clock_(clock),
        stop_(stop),
        log_(log),
        sockets_(log),
        stacks_(options.worker_program, clock),
        heard_ns_(clock.monotonic_ns()) {}

  Status run() {
    while (!stop_.load(std::memory_order_relaxed)) {
      LH_TRY(const bool ended, once());
      if (ended) return {};
      if (alone_too_long())
        return make_error(ErrorCode::unavailable,
                          format("no lead and no living rank for {}", human_duration(options_.alone_max_s)));
    }
    leave();  // told to end: the job is over
    return {};
  }

 private:
  // true: the lead has no more use for this agent.
  Result<bool> once() {
    if (!lead_) LH_CHECK(try_to_connect());
    wait();
    sockets_.look();
    stacks_.look();
    if (lead_) {
      auto frames = lead_->pump();
      if (!frames.ok()) {
        LH_CHECK(lose_lead(frames.error()));
      } else {
        for (const WireFrame& frame : *frames) {
          heard_ns_ = clock_.monotonic_ns();
          if (frame.kind != WireKind::order) continue;
          LH_TRY(const AgentOrder order, agent_order_from_value(frame.body));
          if (order.kind == AgentOrder::Kind::end) {
            leave();
            return true;
          }
          obey(order);
        }
      }
    }
    if (lead_ && !lead_->session().open() && clock_.monotonic_ns() - connected_ns_ > welcome_within_ms * 1'000'000)
      LH_CHECK(lose_lead(make_error(ErrorCode::unavailable, "it does not answer")));
    if (lead_ && lead_->session().open()) report();
    return false;
  }

  void wait() {
    pollfd fd{lead_ ? lead_->descriptor() : -1, static_cast<short>(lead_ ? lead_->wanted_events() : 0), 0};
    (void)::poll(&fd, 1, static_cast<int>(look_every_ms));
  }

  // A lead that is not there yet, or not there any more, is nothing to end for.
  Status try_to_connect() {
    const std::int64_t now = clock_.monotonic_ns();
    if (now < next_try_ns_) return {};
    next_try_ns_ = now + retry_after_ms * 1'000'000;
    const auto address = read_lead_address(options_.address_path);
    if (!address.ok()) return {};
    const auto secret = read_lead_secret(options_.secret_path);
    if (!secret.ok() && secret.error().code == ErrorCode::not_found) return {};
    if (!secret.ok()) return secret.error();
    auto socket = connect_to(address->host, address->port);
    if (!socket.ok()) return {};
    LH_TRY(const std::string nonce, random_hex(32));
    Value hello = Value::make_table();
    hello.set("host", options_.host);
    hello.set("pid", static_cast<std::int64_t>(::getpid()));
    epoch_ = std::max(epoch_, address->epoch);
    lead_.emplace(std::move(*socket), WireSession::agent(*secret, nonce, epoch_, std::move(hello)));
    connected_ns_ = now;
    reported_ns_ = 0;
    return {};
  }

  Status lose_lead(const Error& why) {
    const bool was_open = lead_->session().open();
    if (was_open) epoch_ = std::max(epoch_, lead_->session().epoch());
    lead_.reset();
    if (why.code == ErrorCode::unsupported || why.code == ErrorCode::corrupt) return why;
    if (why.code == ErrorCode::aborted) {
      // A lead of an earlier epoch is not ours; the file may name the right one soon.
      log_.warn("event=lead_not_taken reason='" + why.message() + "'");
      next_try_ns_ = clock_.monotonic_ns() + 4 * retry_after_ms * 1'000'000;
      return {};
    }
    if (was_open) log_.warn("event=lead_lost reason='" + why.message() + "' next=look_for_it");
    return {};
  }

  void obey(const AgentOrder& order) {
    if (order.kind == AgentOrder::Kind::watch) {
      watch(order);
      return;
    }
    if (order.launch != pages_.launch()) return;  // of ranks that are no more
    if (order.kind == AgentOrder::Kind::stacks) return dump_stacks(order);
    for (const RankReport& rank : pages_.look(clock_))
      if (std::find(order.ranks.begin(), order.ranks.end(), rank.beat.rank) != order.ranks.end() && rank.beat.pid > 0 &&
          rank.state != ProcessState::ended) {
        log_.info(format("event=signal rank={} pid={} signal={}", rank.beat.rank, rank.beat.pid, order.signal));
        ::kill(static_cast<pid_t>(rank.beat.pid), order.signal);
      }
  }

  // A file for each rank, in the folder that the lead shares with us.
  void dump_stacks(const AgentOrder& order) {
    std::vector<StackTarget> targets;
    for (const int rank : order.ranks) {
      const HeartbeatPage* const page = pages_.page(rank);
      targets.push_back({rank, page ? static_cast<pid_t>(page->snapshot().pid) : 0});
    }
    if (const Status begun = stacks_.begin(order.folder, targets); !begun.ok())
      log_.warn("event=no_stacks error='" + begun.error().message() + "'");
  }

  // A lead that has found us again says what it said before: what is connected stays.
  void watch(const AgentOrder& order) {
    if (order.folder != beat_folder_) sockets_.close();
    beat_folder_ = order.folder;
    pages_.watch(order.launch, order.folder, order.ranks);
    if (const Status opened = sockets_.open(order.folder, order.ranks); !opened.ok())
      log_.warn("event=no_beat_sockets error='" + opened.error().message() + "' next=watch_pages_alone");
    reported_ns_ = 0;
  }

  void leave() {
    sockets_.close();
    pages_.leave();
  }

  // What changed, at once; that nothing did, now and then.
  void report() {
    std::vector<RankReport> ranks = pages_.look(clock_);
    const std::int64_t now = clock_.monotonic_ns();
    const bool same = ranks == reported_;
    if (same && reported_ns_ > 0 && now - reported_ns_ < report_at_least_every_ms * 1'000'000) return;
    NodeReport report{options_.host, pages_.launch(), ranks, own_cpu_s(), own_rss_kib()};
    lead_->session().send(WireKind::report, node_report_to_value(report));
    reported_ = std::move(ranks), reported_ns_ = now;
  }

  bool alone_too_long() {
    const std::int64_t now = clock_.monotonic_ns();
    if (lead_ && lead_->session().open()) heard_ns_ = now;
    if (static_cast<double>(now - heard_ns_) * 1e-9 < options_.alone_max_s) return false;
    const std::vector<RankReport> ranks = pages_.look(clock_);
    return std::none_of(ranks.begin(), ranks.end(), [](const RankReport& rank) {
      return rank.state != ProcessState::ended && rank.state != ProcessState::none;
    });
  }

  AgentOptions options_;
  Clock& clock_;
  const std::atomic<bool>& stop_;
  Logger& log_;
  RankPages pages_;
  BeatSockets sockets_;
  std::string beat_folder_;
  StackDumps stacks_;
  std::optional<Connection> lead_;
  std::int64_t epoch_ = 1;
  std::int64_t heard_ns_, connected_ns_ = 0, next_try_ns_ = 0, reported_ns_ = 0;
  std::vector<RankReport> reported_;
};

}  // namespace

Status run_agent(const AgentOptions& options, Clock& clock, const std::atomic<bool>& stop, Logger& log) {
  return Agent(options, clock, stop, log).run();
}

}  // namespace longhaul
