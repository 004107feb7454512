#include "worker/agent/agent.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "base/process/process.h"
#include "base/text/text.h"
#include "contracts/settings/job/port_range.h"
#include "resiliency/health/host_readings.h"
#include "resiliency/inject/gpu_script.h"
#include "worker/agent/agent_pace.h"
#include "worker/agent/agent_ranks.h"
#include "worker/agent/leads/lead_link.h"
#include "worker/agent/leads/standby_duty.h"
#include "worker/agent/node_reporter.h"
#include "worker/protocol/node/host_exchange.h"
#include "worker/protocol/node/node_report.h"
#include "worker/protocol/wire/store_message.h"

namespace longhaul {
namespace {

// What a lead has ordered, and who leads from now on, is looked at more often for a while: somebody waits for it.
constexpr std::int64_t hurry_ms = 1'000, lost_lead_hurry_ms = 5'000;

class Agent {
 public:
  Agent(const AgentOptions& options, Clock& clock, const std::atomic<bool>& stop, Logger& log)
      : options_(options),
        clock_(clock),
        stop_(stop),
        log_(log),
        ranks_(options.attempt_key, options.worker_program, clock, log),
        health_(options.health, clock, log),
        link_(options.host, options.address_path, options.secret_path, clock, log),
        duty_({options.worker_program, options.attempt_dir, options.address_path, options.host}, clock, log),
        reporter_(options.host, clock),
        heard_ns_(clock.monotonic_ns()) {}
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  Status run() {
    while (!(stop_.load(std::memory_order_relaxed) && duty_.may_end(link_))) {
      LH_TRY(const bool ended, once());
      if (ended) return {};
      if (alone_too_long())
        return make_error(ErrorCode::unavailable,
                          format("no lead and no living rank for {}", human_duration(options_.alone_max_s)));
    }
    ranks_.leave();  // asked to end: the job is over
    return {};
  }

 private:
  // true: the lead has no more use for this agent.
  Result<bool> once() {
    if (!link_.connected() && !ending_) {
      LH_TRY(const bool connected, link_.try_to_connect(pace_.hurries(clock_.monotonic_ns())));
      if (connected) reporter_.hurry();
    }
    wait();
    if (exchange_) exchange_->work(LookInterval::least_ms);
    const bool look = pace_.due(clock_.monotonic_ns());  // else a message of the lead: heard, and no more
    if (look && look_around()) return !duty_.leads_itself();
    if (link_.connected()) {
      LH_TRY(const bool over, hear());
      if (over) return !duty_.leads_itself();
    }
    if (const auto overdue = link_.overdue()) LH_CHECK(lose_lead(overdue->why, overdue->silent));
    if (link_.open()) {
      if (look || reporter_.hurries()) report();
      pass_on_entries();
      if (const Status sent = link_.lead().flush(); !sent.ok()) LH_CHECK(lose_lead(sent.error()));
    }
    return false;
  }

  // What there is to see on this node. Whether the agent only waits for the lead that it has started.
  bool look_around() {
    const bool quiet = ranks_.quiet();
    const bool calm = quiet && link_.open() && !ending_;
    pace_.looked(clock_.monotonic_ns(), calm, calm && ranks_.pages().ends_are_reported());
    if (duty_.look(link_)) reporter_.hurry();
    if (ending_) return true;
    if (!quiet) ranks_.look_at_text();
    ranks_.look_at_stacks();
    health_.look();
    link_.look_at_strangers();
    return false;
  }

  // What the lead says. Whether it has no more use for this agent.
  Result<bool> hear() {
    auto frames = link_.lead().pump();
    if (!frames.ok()) {
      LH_CHECK(lose_lead(frames.error()));
      return false;
    }
    for (const WireFrame& frame : *frames) {
      heard_ns_ = clock_.monotonic_ns();
      link_.heard();
      if (frame.kind == WireKind::welcome) {
        LH_TRY(const bool stays, greet(frame.body));
        if (!stays) break;
      }
      if (frame.kind == WireKind::store) {
        LH_TRY(const StoreMessage entries, store_message_from_value(frame.body));
        ranks_.store().take(entries);
      }
      if (frame.kind != WireKind::order) continue;
      LH_TRY(const AgentOrder order, agent_order_from_value(frame.body));
      if (order.kind == AgentOrder::Kind::end) {
        ranks_.leave();
        ending_ = true;
        // It waits for our end, and we for it: a lead that we have started has yet to write its record.
        if (duty_.leads_itself()) link_.close();
        return true;
      }
      obey(order);
    }
    return false;
  }

  // The welcome of a lead, or of one in waiting. Whether it stays the one that we follow.
  Result<bool> greet(const Value& welcome) {
    look_at_clock(welcome.get_integer("wall_ms"));
    link_.welcomed();
    if (const auto ports = parse_port_range(welcome.get_string("ports")); ports.ok())
      duty_.stand_in().listen_in(*ports);  // where the lead says that the way of others is open
    hurry(hurry_ms);
    const Value* const asks = welcome.find("asks");
    if (!asks) return true;
    const Status promised = link_.promise(lead_epoch_of(*asks));
    if (promised.ok()) return true;
    (void)lose_lead(promised.error()).ok();
    link_.choice().refused();
    return false;
  }

  void wait() {
    if (exchange_) return;  // it waits for its own sockets
    const std::int64_t now = clock_.monotonic_ns();
    const bool silent = now < silent_until_ns_;
    std::int64_t left_ns = pace_.next_look_ns() - now;
    if (ranks_.store().next_ns() > 0 && !silent) left_ns = std::min(left_ns, ranks_.store().next_ns() - now);
    std::vector<pollfd> descriptors(1, {-1, 0, 0});  // the lead's, that of the store, then those of the ranks
    if (link_.connected())
      descriptors.front() = {link_.lead().descriptor(), static_cast<short>(link_.lead().wanted_events()), 0};
    descriptors.push_back({silent ? -1 : ranks_.store().descriptor(now), POLLIN, 0});
    const std::ptrdiff_t first_end = std::ssize(descriptors);
    ranks_.pages().add_ends(descriptors);
    (void)::poll(descriptors.data(), descriptors.size(),
                 static_cast<int>(std::max<std::int64_t>(0, (left_ns + 999'999) / 1'000'000)));
    const bool ended = std::any_of(descriptors.begin() + first_end, descriptors.end(),
                                   [](const pollfd& end) { return end.revents != 0; });
    if (!ended) return;
    (void)ranks_.look();  // what has fired is gone, also while there is no lead to hear of it
    pace_.look_now();
  }

  void hurry(std::int64_t ms) { pace_.hurry(clock_.monotonic_ns(), ms); }

  Status lose_lead(const Error& why, bool silent = false) {
    const bool was_open = link_.open();
    if (was_open) hurry(lost_lead_hurry_ms);
    const auto lost = link_.lose(why, silent, duty_.leads_itself());
    ranks_.store().lead_lost();
    return lost.ok() ? Status() : Status(lost.error());
  }

  void obey(const AgentOrder& order) {
    switch (order.kind) {
      case AgentOrder::Kind::ping: return;
      case AgentOrder::Kind::state: return be_standby(order.state);
      case AgentOrder::Kind::standby:
        link_.choice().know_standby(order.host, order.port, order.what);
        if (duty_.stand_in().gives_way_to(order.host)) reporter_.hurry();
        return;
      case AgentOrder::Kind::watch:
        exchange_.reset();
        ranks_.watch(order);
        reporter_.hurry();
        return hurry(hurry_ms);
      case AgentOrder::Kind::fault: return suffer(order);
      case AgentOrder::Kind::exchange: return exchange(order);
      default: hurry(hurry_ms); ranks_.obey(order);
    }
  }

  void be_standby(const Value& state) {
    StandIn& stand_in = duty_.stand_in();
    const bool was = stand_in.is_standby();
    stand_in.keep(state, link_.epoch().number);
    if (was || !stand_in.is_standby()) return;
    link_.choice().know_standby(options_.host, stand_in.port(), "");
    reporter_.hurry();
  }

  // Before the first launch: how fast is the network between the nodes?
  void exchange(const AgentOrder& order) {
    reporter_.hurry();
    if (!order.partners.empty() && exchange_) return exchange_->begin(order.partners);
    exchange_.reset();
    if (order.id.empty()) return;
    auto opened = HostExchange::open(order.id, clock_, duty_.stand_in().ports());
    if (opened.ok())
      exchange_ = std::move(*opened);
    else
      log_.warn("event=no_exchange error='" + opened.error().message() + "'");
  }

  // The lead's answer to our greeting has the time there. Once is enough: a clock that is off stays so.
  void look_at_clock(std::int64_t theirs_ms) {
    if (clock_reported_ || theirs_ms <= 0 || options_.health.program.empty()) return;
    const std::int64_t round_trip_ms = link_.greeted_ms_ago();
    const auto off = judge_clock(clock_.wall_ms() - round_trip_ms, theirs_ms, round_trip_ms);
    clock_reported_ = off.has_value();
    if (off) health_.add(*off);
  }

  // What a test of this job wants to happen to its node (contracts/settings/job/named_fault.h).
  void suffer(const AgentOrder& order) {
    log_.warn("event=injected_fault what=" + order.folder);
    if (order.folder == "silence") silent_until_ns_ = clock_.monotonic_ns() + order.lasts_ms * 1'000'000;
    if (order.folder == "end") ::kill(::getpid(), SIGKILL);
    if (order.folder == "gpu") {
      const Status appended = append_to_gpu_script(health_.report().gpu_script, order.what, clock_.wall_ms());
      if (!appended.ok()) not_suffered(order, appended.error().message());
    }
    if (order.folder == "message" && !order.ranks.empty() && !ranks_.say_fault(order.ranks.front(), order.what))
      not_suffered(order, nobody_listens(order.ranks.front()).error().message());
    if (order.folder != "freeze") return;
    ranks_.freeze();
    ::kill(::getpid(), SIGSTOP);
  }

  void not_suffered(const AgentOrder& order, const std::string& why) {
    log_.warn("event=not_injected id=" + order.id + " why='" + why + "'");
    reporter_.not_injected(order.id, why);
  }

  // What ranks have left for those of other hosts, and what they look for.
  void pass_on_entries() {
    const std::int64_t now = clock_.monotonic_ns();
    if (now < silent_until_ns_) return;
    for (const StoreMessage& news : ranks_.store().look(now))
      link_.lead().session().send(WireKind::store, store_message_to_value(news));
  }

  void report() {
    const std::int64_t now = clock_.monotonic_ns();
    if (now < silent_until_ns_) return;
    std::vector<RankReport> ranks = ranks_.look();
    std::int64_t step = -1;
    for (const RankReport& rank : ranks) step = std::max(step, rank.beat.step);
    pace_.note_step(now, step);
    health_.set_job_pids(job_pids(ranks));
    const auto report = reporter_.report({ranks_.pages().launch(), std::move(ranks), ranks_.orders_done(),
                                          duty_.stand_in().port(), health_.report(), exchange_.get()});
    if (report) link_.lead().session().send(WireKind::report, node_report_to_value(*report));
  }

  // Of this node; whom these have started is the job's as well.
  static std::set<int> job_pids(const std::vector<RankReport>& ranks) {
    std::set<int> pids = {::getpid()};
    for (const RankReport& rank : ranks)
      if (rank.beat.pid > 0 && rank.state != ProcessState::ended) pids.insert(static_cast<int>(rank.beat.pid));
    return pids;
  }

  bool alone_too_long() {
    const std::int64_t now = clock_.monotonic_ns();
    if (link_.open()) heard_ns_ = now;
    if (static_cast<double>(now - heard_ns_) * 1e-9 < options_.alone_max_s) return false;
    const std::vector<RankReport> ranks = ranks_.look();
    return std::none_of(ranks.begin(), ranks.end(), [](const RankReport& rank) {
      return rank.state != ProcessState::ended && rank.state != ProcessState::none;
    });
  }

  AgentOptions options_;
  Clock& clock_;
  const std::atomic<bool>& stop_;
  Logger& log_;
  AgentRanks ranks_;
  HealthWatch health_;
  std::unique_ptr<HostExchange> exchange_;
  LeadLink link_;
  StandbyDuty duty_;
  NodeReporter reporter_;
  AgentPace pace_;
  std::int64_t silent_until_ns_ = 0;
  std::int64_t heard_ns_;  // the lead
  bool clock_reported_ = false, ending_ = false;
};

}  // namespace

Status run_agent(const AgentOptions& options, Clock& clock, const std::atomic<bool>& stop, Logger& log) {
  return Agent(options, clock, stop, log).run();
}

}  // namespace longhaul
