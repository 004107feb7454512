#include "worker/agent/agent.h"

#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "base/digest/hash.h"
#include "base/files/files.h"
#include "base/process/process.h"
#include "base/text/text.h"
#include "contracts/control/control_times.h"
#include "contracts/settings/job/port_range.h"
#include "resiliency/beat/beat_folder.h"
#include "resiliency/health/host_readings.h"
#include "resiliency/inject/gpu_script.h"
#include "worker/agent/epoch_promise.h"
#include "worker/agent/lead_files.h"
#include "worker/agent/lead_memory.h"
#include "worker/agent/look_interval.h"
#include "worker/agent/rank_pages.h"
#include "worker/agent/stand_in.h"
#include "worker/agent/store_client.h"
#include "worker/protocol/node/host_exchange.h"
#include "worker/protocol/node/node_report.h"
#include "worker/protocol/node/stand_in_turn.h"
#include "worker/protocol/ranks/beat_sockets.h"
#include "worker/protocol/ranks/page_orders.h"
#include "worker/protocol/wire/connection.h"
#include "worker/protocol/wire/lead_address.h"
#include "worker/protocol/wire/lost_lead.h"
#include "worker/protocol/wire/store_message.h"
#include "worker/protocol/wire/unauthenticated_log.h"
#include "worker/stacks/stack_dumps.h"

namespace longhaul {
namespace {

constexpr std::int64_t report_at_least_every_ms = 500;
constexpr std::int64_t measure_every_ms = 10'000;  // its own memory
constexpr std::int64_t welcome_within_ms = 5'000;
constexpr std::int64_t retry_after_ms = 250, standby_welcome_ms = 600;
// What a lead has ordered, and who leads from now on, is looked at more often for a while: somebody waits for it.
constexpr std::int64_t hurry_ms = 1'000, lost_lead_hurry_ms = 5'000, hurried_look_ms = 50, hurried_retry_ms = 100;
constexpr std::int64_t other_lead_after_ms = 200;          // of having lost one: the standby is asked, too
constexpr std::int64_t stand_in_after_ms = 400;            // of a lead whose connection was closed
constexpr std::int64_t stand_in_after_silence_ms = 2'000;  // of one that is only silent: a cut may heal
constexpr std::int64_t stand_in_again_ms = 5'000;          // after one that could not be started
// A standby without a lead that is told to end: the scheduler ends the job with the lead's node, and there is time
// (Slurm's KillWait, 30 s) to write the record and to ask for the next job.
constexpr std::int64_t last_stand_ms = 28'000, last_tries_ms = 12'000, last_try_again_ms = 200;
constexpr int no_majority_exit = 3;  // of a lead in waiting

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
        pages_(options.attempt_key),
        sockets_(log),
        words_(log),
        stacks_(options.worker_program, clock),
        health_(options.health, clock, log),
        strangers_("no_lead_there", clock, log),
        files_(LeadFiles::ways_of(options.address_path, options.secret_path), clock,
               std::hash<std::string>{}(options.host) + static_cast<std::uint64_t>(::getpid())),
        heard_ns_(clock.monotonic_ns()),
        leads_(clock.monotonic_ns()),
        stand_in_({options.worker_program, options.attempt_dir, options.address_path, options.host}, clock, log) {}
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  Status run() {
    while (!may_end()) {
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
  // Told to end, and nobody is left who would have to be followed.
  bool may_end() {
    if (!stop_.load(std::memory_order_relaxed)) return false;
    const std::int64_t now = clock_.monotonic_ns();
    if (stopping_ns_ == 0) {
      stopping_ns_ = now;
      last_stand_ = stand_in_.is_standby() && !(lead_ && lead_->session().open());
      next_stand_in_ns_ = 0;
      if (last_stand_) log_.warn("event=told_to_end why='the job ends, and its lead is lost' next=stand_in");
    }
    if (!last_stand_ || now - stopping_ns_ > last_stand_ms * 1'000'000) return true;
    return !stand_in_.running() && (stand_in_done_ || now - stopping_ns_ > last_tries_ms * 1'000'000);
  }

  // true: the lead has no more use for this agent.
  Result<bool> once() {
    if (!lead_ && !ending_) LH_CHECK(try_to_connect());
    wait();
    if (exchange_) exchange_->work(LookInterval::least_ms);
    const bool look = clock_.monotonic_ns() >= next_look_ns_;  // else a word of the lead: heard, and no more
    if (look) {
      const bool quiet = sockets_.quiet();
      next_look_ns_ = clock_.monotonic_ns() + look_interval_ms(quiet) * 1'000'000;
      look_at_stand_in();
      if (ending_) return !stand_in_.running();
      if (!quiet) sockets_.look();
      stacks_.look();
      health_.look();
      strangers_.look();
    }
    if (lead_) {
      auto frames = lead_->pump();
      if (!frames.ok()) {
        LH_CHECK(lose_lead(frames.error()));
      } else {
        for (const WireFrame& frame : *frames) {
          heard_ns_ = said_ns_ = clock_.monotonic_ns();
          if (frame.kind == WireKind::welcome) {
            look_at_clock(frame.body.get_integer("wall_ms"));
            leads_.welcomed(peer_of(lead_->descriptor()));
            if (const auto ports = parse_port_range(frame.body.get_string("ports")); ports.ok())
              stand_in_.listen_in(*ports);  // where the lead says that the way of others is open
            hurry(hurry_ms);
            if (const Value* asks = frame.body.find("asks"); asks && !promise(lead_epoch_of(*asks))) break;
          }
          if (frame.kind == WireKind::words) {
            LH_TRY(const StoreMessage words, store_message_from_value(frame.body));
            words_.take(words);
          }
          if (frame.kind != WireKind::order) continue;
          LH_TRY(const AgentOrder order, agent_order_from_value(frame.body));
          if (order.kind == AgentOrder::Kind::end) {
            leave();
            ending_ = true;
            if (!stand_in_.running()) return true;
            lead_.reset();  // it waits for our end, and we for it: the lead that we have started has yet to write its
                            // record
            return false;
          }
          obey(order);
        }
      }
    }
    if (lead_ && !lead_->session().open() && clock_.monotonic_ns() - connected_ns_ > welcome_ms() * 1'000'000)
      LH_CHECK(lose_lead(make_error(ErrorCode::unavailable, "it does not answer")));
    if (lead_ && lead_->session().open() && clock_.monotonic_ns() - said_ns_ > lead_silent_ms * 1'000'000)
      LH_CHECK(lose_lead(make_error(ErrorCode::unavailable, "it is silent"), true));
    if (lead_ && lead_->session().open()) {
      if (look || reported_ns_ == 0) report();
      pass_on_words();
      if (const Status sent = lead_->flush(); !sent.ok()) LH_CHECK(lose_lead(sent.error()));
    }
    return false;
  }

  void wait() {
    if (exchange_) return;  // it waits for its own sockets
    const std::int64_t now = clock_.monotonic_ns();
    const bool silent = now < silent_until_ns_;
    std::int64_t left_ns = next_look_ns_ - now;
    if (words_.next_ns() > 0 && !silent) left_ns = std::min(left_ns, words_.next_ns() - now);
    descriptors_.assign(1,
                        {lead_ ? lead_->descriptor() : -1, static_cast<short>(lead_ ? lead_->wanted_events() : 0), 0});
    descriptors_.push_back({silent ? -1 : words_.descriptor(now), POLLIN, 0});
    const std::ptrdiff_t first_end = std::ssize(descriptors_);
    pages_.add_ends(descriptors_);
    (void)::poll(descriptors_.data(), descriptors_.size(),
                 static_cast<int>(std::max<std::int64_t>(0, (left_ns + 999'999) / 1'000'000)));
    const bool ended = std::any_of(descriptors_.begin() + first_end, descriptors_.end(),
                                   [](const pollfd& end) { return end.revents != 0; });
    if (!ended) return;
    (void)pages_.look(clock_);  // what has fired is gone, also while there is no lead to hear of it
    next_look_ns_ = 0;
  }

  void hurry(std::int64_t ms) {
    hurry_until_ns_ = std::max(hurry_until_ns_, clock_.monotonic_ns() + ms * 1'000'000);
    next_look_ns_ = 0;
  }

  // Programs that speak text are read ten times a second (docs/contracts.md); a lead is looked for often.
  std::int64_t look_interval_ms(bool no_text) const {
    if (clock_.monotonic_ns() < hurry_until_ns_) return hurried_look_ms;
    const bool calm = no_text && lead_ && lead_->session().open() && !ending_;
    return calm ? interval_.ms(pages_.ends_are_told()) : LookInterval::least_ms;
  }

  // A lead that is not there yet, or not there any more, is nothing to end for.
  Status try_to_connect() {
    const std::int64_t now = clock_.monotonic_ns();
    if (now < next_try_ns_) return {};
    next_try_ns_ = now + (now < hurry_until_ns_ ? hurried_retry_ms : retry_after_ms) * 1'000'000;
    files_.look();
    LeadFilesSeen seen = files_.seen();
    auto address = next_address(seen);
    if (!address.ok()) return {};
    asked_ = *address;
    // Read anew each time, for another job of the attempt has another; what was read serves when the file is gone.
    if (!seen.secret.ok() && seen.secret.error().code != ErrorCode::not_found) return seen.secret.error();
    if (seen.secret.ok()) secret_ = std::move(*seen.secret);
    const bool told = address->host == standby_host_ && !standby_address_.empty();
    const std::string at = told ? standby_address_ : files_.address_of(address->host);
    if (secret_.empty() || at.empty()) return {};
    auto socket = connect_to(at, address->port);
    if (!socket.ok()) return files_.not_reached(address->host), Status();
    LH_TRY(const std::string nonce, random_hex(32));
    Value hello = Value::make_table();
    hello.set("host", options_.host);
    hello.set("pid", static_cast<std::int64_t>(::getpid()));
    // The file of a lead's address says in which epoch it leads; that of a standby names the host of no lead.
    epoch_ = std::max(epoch_, address->attempt_key.empty() ? LeadEpoch(address->epoch) : address->lead_epoch());
    only_waits_ = false;
    lead_.emplace(std::move(*socket), WireSession::agent(secret_, nonce, epoch_, std::move(hello)));
    connected_ns_ = said_ns_ = now;
    reported_ns_ = 0;
    return {};
  }

  // The answer to a lead in waiting, which is no lead yet. Whether it stays the one that we wait with.
  bool promise(const LeadEpoch& asked) {
    only_waits_ = true;
    const bool given = promise_.give(asked, epoch_);
    lead_->session().send(WireKind::promise, lead_epoch_to_value(promise_.newest()));
    log_.info(format("event=asked_to_follow epoch='{}' promised='{}'", asked.text(), promise_.newest().text()));
    if (given) return true;
    (void)lead_->flush().ok();
    (void)lose_lead(
        make_error(ErrorCode::aborted, format("epoch {} is promised to {}, and {} asks for it",
                                              promise_.newest().number, promise_.newest().host, asked.host)))
        .ok();
    again_ = false;  // another may lead
    return false;
  }

  // Whoever sits on a dead node answers nothing at all, and there is another to turn to. The standby's port is open
  // while the lead there is being started.
  std::int64_t welcome_ms() const {
    if (asks_a_standby_) return standby_welcome_ms;
    return standby_port_ > 0 ? retry_after_ms : welcome_within_ms;
  }

  // By the file, where that names a later lead by now. Once more where it was: a lead that has just taken over sends
  // its agents away, and a broken connection may be all that was lost. Then by the file; every other time a standby,
  // once a lead is lost: in turn the one that we were told of, and the one that the lead named last, for it may have
  // had no time to tell us.
  Result<LeadAddress> next_address(const LeadFilesSeen& seen) {
    const bool again = std::exchange(again_, false);
    const bool later = seen.lead.ok() && seen.lead->lead_epoch() > epoch_;
    if (later && !files_.address_of(seen.lead->host).empty()) return asks_a_standby_ = false, seen.lead;
    if (again && asked_.port > 0) return LeadAddress{"", epoch_.number, asked_.host, asked_.port};
    const bool lost = clock_.monotonic_ns() - leads_.without_since_ns() > other_lead_after_ms * 1'000'000;
    asks_a_standby_ = lost && !asks_a_standby_;
    if (!asks_a_standby_) return seen.lead;
    asks_by_file_ = standby_port_ == 0 || (!asks_by_file_ && seen.standby.ok());
    if (!asks_by_file_) return LeadAddress{"", epoch_.number, standby_host_, standby_port_};
    return seen.standby;
  }

  void be_standby(const Value& state) {
    const bool was = stand_in_.is_standby();
    stand_in_.keep(state, epoch_.number);
    if (was || !stand_in_.is_standby()) return;
    standby_host_ = options_.host, standby_port_ = stand_in_.port(), standby_address_.clear();
    reported_ns_ = 0;
  }

  // Starts the lead in waiting when ours is lost; sees to one that has ended.
  void look_at_stand_in() {
    const std::int64_t now = clock_.monotonic_ns();
    if (stand_in_.running()) {
      const auto exit = stand_in_.poll();
      if (!exit) return;
      if (!stand_in_.is_standby()) reported_ns_ = 0;
      stand_in_done_ = exit->ok() && (*exit)->code != no_majority_exit;
      const std::int64_t pause_ms = last_stand_ ? last_try_again_ms : stand_in_pause_ms(stand_in_.is_named_last());
      next_stand_in_ns_ = now + pause_ms * 1'000'000;
      return;
    }
    const std::int64_t after_ms = last_stand_ ? 0 : leads_.was_silent() ? stand_in_after_silence_ms : stand_in_after_ms;
    if (!stand_in_.is_standby() || (lead_ && lead_->session().open()) ||
        now - leads_.without_since_ns() < after_ms * 1'000'000 || now < next_stand_in_ns_)
      return;
    next_stand_in_ns_ = now + stand_in_again_ms * 1'000'000;
    stand_in_.start(leads_.lost_lead(), epoch_, promise_.newest());
  }

  // Ends this agent (an error) only for what was said in a signed frame: refused for good, or of another release.
  // What strangers say at an address where a lead was, or is to be, is another try.
  Status lose_lead(const Error& why, bool silent = false) {
    const bool was_open = lead_->session().open();
    if (!was_open) files_.not_reached(asked_.host);
    if (lead_->session().stranger()) strangers_.note(format("{}:{}", asked_.host, asked_.port), why.message());
    if (was_open) leads_.lost(clock_.monotonic_ns(), silent, only_waits_);
    if (was_open) epoch_ = std::max(epoch_, lead_->session().epoch()), hurry(lost_lead_hurry_ms);
    if (was_open) again_ = true, next_try_ns_ = 0;
    // Of those that only wait one is lost after the other: what the files say is not put off for each of them.
    if (was_open && !only_waits_) files_.lead_lost(standby_port_ > 0);
    lead_.reset();
    words_.lead_lost();
    if (why.code == ErrorCode::unsupported) return why;
    if (why.code == ErrorCode::conflict && !stand_in_.running())
      return why;  // another agent works here: its pages stay
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
    if (order.kind == AgentOrder::Kind::ping) return;
    if (order.kind == AgentOrder::Kind::state) return be_standby(order.state);
    if (order.kind == AgentOrder::Kind::standby) {
      standby_host_ = order.host, standby_port_ = order.port, standby_address_ = order.what;
      if (stand_in_.gives_way_to(order.host)) reported_ns_ = 0;
      return;
    }
    if (order.kind == AgentOrder::Kind::watch) {
      watch(order);
      hurry(hurry_ms);
      return;
    }
    if (order.kind == AgentOrder::Kind::fault) return suffer(order);
    if (order.kind == AgentOrder::Kind::exchange) return exchange(order);
    hurry(hurry_ms);
    if (order.launch != pages_.launch()) return;  // of ranks that are no more
    if (order.kind == AgentOrder::Kind::stacks) return dump_stacks(order);
    if (order.kind == AgentOrder::Kind::end_by) return pages_.must_end_by(end_by_ns(order));
    if (order.kind == AgentOrder::Kind::page) return write_order(order);
    if (order.kind == AgentOrder::Kind::restart) {
      words_.new_epoch(order.epoch);
      for (const int rank : order.ranks)
        if (HeartbeatPage* const page = pages_.page(rank)) page->order_restart(order.epoch);
      log_.info(format("event=restart_ordered epoch={}", order.epoch));
      return;
    }
    for (const RankReport& rank : pages_.look(clock_))
      if (std::find(order.ranks.begin(), order.ranks.end(), rank.beat.rank) != order.ranks.end() && rank.beat.pid > 0 &&
          rank.state != ProcessState::ended) {
        log_.info(format("event=signal rank={} pid={} signal={}", rank.beat.rank, rank.beat.pid, order.signal));
        signal_rank(rank.beat.rank, order.signal);
      }
  }

  void signal_rank(int rank, int number) {
    if (const Status sent = pages_.signal(rank, number); !sent.ok())
      log_.warn(format("event=not_signalled rank={} signal={} error='{}'", rank, number, sent.error().message()));
  }

  // Before the first launch: how fast is the network between the nodes?
  void exchange(const AgentOrder& order) {
    reported_ns_ = 0;
    if (!order.partners.empty() && exchange_) return exchange_->begin(order.partners);
    exchange_.reset();
    if (order.id.empty()) return;
    auto opened = HostExchange::open(order.id, clock_, stand_in_.ports());
    if (opened.ok())
      exchange_ = std::move(*opened);
    else
      log_.warn("event=no_exchange error='" + opened.error().message() + "'");
  }

  // The lead's answer to our greeting has the time there. Once is enough: a clock that is off stays so.
  void look_at_clock(std::int64_t theirs_ms) {
    if (clock_told_ || theirs_ms <= 0 || options_.health.program.empty()) return;
    const std::int64_t round_trip_ms = (clock_.monotonic_ns() - connected_ns_) / 1'000'000;
    const auto off = judge_clock(clock_.wall_ms() - round_trip_ms, theirs_ms, round_trip_ms);
    clock_told_ = off.has_value();
    if (off) health_.add(*off);
  }

  // What a test of this job wants to happen to its node (contracts/settings/job/named_fault.h).
  void suffer(const AgentOrder& order) {
    log_.warn("event=injected_fault what=" + order.folder);
    if (order.folder == "silence") silent_until_ns_ = clock_.monotonic_ns() + order.lasts_ms * 1'000'000;
    if (order.folder == "end") ::kill(::getpid(), SIGKILL);
    if (order.folder == "gpu") {
      const Status told = append_to_gpu_script(health_.report().gpu_script, order.what, clock_.wall_ms());
      if (!told.ok()) not_suffered(order, told.error().message());
    }
    if (order.folder == "word" && !order.ranks.empty() && !sockets_.say_fault(order.ranks.front(), order.what))
      not_suffered(order, nobody_listens(order.ranks.front()).error().message());
    if (order.folder != "freeze") return;
    for (const RankReport& rank : pages_.look(clock_))
      if (rank.beat.pid > 0 && rank.state != ProcessState::ended) signal_rank(rank.beat.rank, SIGSTOP);
    ::kill(::getpid(), SIGSTOP);
  }

  // Told with every report from now on: the lead takes each once.
  void not_suffered(const AgentOrder& order, const std::string& why) {
    log_.warn("event=not_injected id=" + order.id + " why='" + why + "'");
    fault_problems_.push_back({order.id, why});
    reported_ns_ = 0;
  }

  // What the page has no word for the lead has refused before.
  void write_order(const AgentOrder& order) {
    HeartbeatPage* const page = order.ranks.empty() ? nullptr : pages_.page(order.ranks.front());
    if (!page) return;  // told again
    ordered_rank_ = order.ranks.front();
    (void)orders_.write(order.id, order.what, order.value, *page);
  }

  std::vector<std::string> orders_done() {
    HeartbeatPage* const page = orders_.empty() ? nullptr : pages_.page(ordered_rank_);
    return page ? orders_.done(*page) : std::vector<std::string>();
  }

  // A file for each rank, in the folder that the lead shares with us.
  void dump_stacks(const AgentOrder& order) {
    std::vector<StackTarget> targets;
    for (const int rank : order.ranks) targets.push_back({rank, pages_.own_pid(rank)});
    if (const Status begun = stacks_.begin(order.folder, targets); !begun.ok())
      log_.warn("event=no_stacks error='" + begun.error().message() + "'");
  }

  // Of a launch that this node has outlived: the lead took it for lost, and went on without it.
  void end_forgotten_ranks() {
    for (const RankReport& rank : pages_.look(clock_)) {
      if (rank.beat.pid <= 0 || rank.state == ProcessState::ended || rank.state == ProcessState::none) continue;
      log_.warn(format("event=forgotten_rank launch={} rank={} pid={} next=kill", pages_.launch(), rank.beat.rank,
                       rank.beat.pid));
      signal_rank(rank.beat.rank, SIGKILL);
    }
  }

  // By this host's own clock, from when the order came. What was on its way for long is counted as later than it is.
  std::int64_t end_by_ns(const AgentOrder& order) const {
    return order.left_ms > 0 ? clock_.monotonic_ns() + order.left_ms * 1'000'000 : 0;
  }

  // A lead that has found us again says what it said before: what is connected stays.
  void watch(const AgentOrder& order) {
    if (order.launch > pages_.launch()) end_forgotten_ranks();
    exchange_.reset();
    if (order.folder != beat_folder_) sockets_.close(), orders_.clear();
    beat_folder_ = order.folder;
    // Before anything is looked for or made in it. Ranks refuse a folder that is not ours as well.
    auto held = order.ranks.empty() ? Result<HeldFolder>(HeldFolder()) : hold_beat_folder(order.folder);
    if (!held.ok()) log_.error("event=beat_folder_refused error='" + held.error().message() + "'");
    beat_folder_held_ = held.ok() ? std::move(*held) : HeldFolder();
    pages_.watch(order.launch, order.folder, order.ranks, order.restart_wait_ms);
    pages_.must_end_by(end_by_ns(order));
    words_.watch(order.launch, order.ranks.empty() ? std::string() : order.words);
    if (const Status opened = sockets_.open(order.folder, order.ranks); !opened.ok())
      log_.warn("event=no_beat_sockets error='" + opened.error().message() + "' next=watch_pages_alone");
    reported_ns_ = 0;
  }

  void leave() {
    sockets_.close();
    words_.leave();
    pages_.leave();
  }

  // What ranks have left for those of other hosts, and what they look for.
  void pass_on_words() {
    const std::int64_t now = clock_.monotonic_ns();
    if (now < silent_until_ns_) return;
    for (const StoreMessage& news : words_.look(now))
      lead_->session().send(WireKind::words, store_message_to_value(news));
  }

  // What changed, at once; that nothing did, now and then.
  void report() {
    const std::int64_t now = clock_.monotonic_ns();
    if (now < silent_until_ns_) return;
    std::vector<RankReport> ranks = pages_.look(clock_);
    std::int64_t step = -1;
    for (const RankReport& rank : ranks) step = std::max(step, rank.beat.step);
    interval_.note(now / 1'000'000, step);
    health_.set_job_pids(job_pids(ranks));
    const HealthReport& health = health_.report();
    const std::int64_t health_now = health.looks + (health.notes.empty() ? 0 : health.notes.back().serial);
    std::vector<std::string> done = orders_done();
    const bool exchanged = exchange_ && exchange_->done();
    const bool same = ranks == reported_ && done == done_reported_ && health_now == reported_health_ &&
                      exchanged == reported_exchanged_;
    if (same && reported_ns_ > 0 && now - reported_ns_ < report_at_least_every_ms * 1'000'000) return;
    if (rss_kib_ == 0 || now - measured_ns_ > measure_every_ms * 1'000'000)
      rss_kib_ = own_rss_kib(), measured_ns_ = now;
    NodeReport report{options_.host, pages_.launch(), ranks, own_cpu_s(), rss_kib_, stand_in_.port(), done, health};
    report.fault_problems = fault_problems_;
    if (exchange_)
      report.exchange_port = exchange_->port(), report.exchange_done = exchanged,
      report.exchanged = exchange_->figures();
    reported_exchanged_ = exchanged;
    lead_->session().send(WireKind::report, node_report_to_value(report));
    reported_ = std::move(ranks), done_reported_ = std::move(done), reported_ns_ = now;
    reported_health_ = health_now;
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
  StoreClient words_;
  std::string beat_folder_;
  HeldFolder beat_folder_held_;
  StackDumps stacks_;
  HealthWatch health_;
  UnauthenticatedLog strangers_;  // who answers where a lead was looked for
  LeadFiles files_;
  std::unique_ptr<HostExchange> exchange_;
  bool reported_exchanged_ = false;
  std::optional<Connection> lead_;
  LeadAddress asked_;   // whom we have turned to last
  bool again_ = false;  // a connection was lost: the same address first
  std::string secret_;
  LeadEpoch epoch_;  // the newest that has led
  EpochPromise promise_;
  bool only_waits_ = false;  // whom we are connected to
  LookInterval interval_;
  std::int64_t next_look_ns_ = 0;
  std::vector<pollfd> descriptors_;  // of a wait: the lead's, that of words, then those of the ranks
  std::int64_t hurry_until_ns_ = 0;
  std::int64_t heard_ns_, connected_ns_ = 0, next_try_ns_ = 0, reported_ns_ = 0;
  LeadMemory leads_;
  std::int64_t said_ns_ = 0;  // its last word
  std::int64_t silent_until_ns_ = 0;
  bool clock_told_ = false, ending_ = false;
  std::string standby_host_;     // of another agent, or this one
  std::string standby_address_;  // where the lead has seen it, as numbers; "": it did not say
  int standby_port_ = 0;
  bool asks_a_standby_ = false, asks_by_file_ = true;  // of the newest try
  StandIn stand_in_;
  std::int64_t next_stand_in_ns_ = 0;
  std::int64_t stopping_ns_ = 0;  // since when it is told to end; 0: it is not
  bool last_stand_ = false, stand_in_done_ = false;
  std::vector<RankReport> reported_;
  std::int64_t reported_health_ = 0;
  std::int64_t rss_kib_ = 0, measured_ns_ = 0;
  PageOrders orders_;
  int ordered_rank_ = 0;
  std::vector<std::string> done_reported_;
  std::vector<FaultProblem> fault_problems_;
};

}  // namespace

Status run_agent(const AgentOptions& options, Clock& clock, const std::atomic<bool>& stop, Logger& log) {
  return Agent(options, clock, stop, log).run();
}

}  // namespace longhaul
