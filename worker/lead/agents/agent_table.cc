#include "worker/lead/agents/agent_table.h"

#include <algorithm>

#include "base/digest/hash.h"
#include "base/files/files.h"
#include "base/text/text.h"
#include "worker/lead/agents/strangers.h"
#include "worker/lead/agents/succession.h"

namespace longhaul {
namespace {

constexpr std::int64_t hello_within_ms = 5'000;
constexpr std::int64_t heard_lately_ms = 2'000;
// An agent that has lost its lead turns to the standby within this time, if it lives.
constexpr std::int64_t turns_within_ns = 400'000'000;
constexpr std::size_t strangers_besides_hosts = 64;  // connections that have not said hello
constexpr int accepted_at_once = 64;

}  // namespace

AgentTable::AgentTable(const AgentTableOptions& options, std::string secret, Listener listener, Clock& clock,
                       Logger& log)
    : options_(options),
      secret_(std::move(secret)),
      listener_(std::move(listener)),
      clock_(clock),
      log_(log),
      strangers_("connection_refused", clock, log) {
  for (const std::string& host : options_.hosts) agents_[host].report.host = host;
}

AgentTable::~AgentTable() {
  if (owns_files_ && !superseded_) (void)remove_tree(options_.secret_path).ok();
}

Result<std::unique_ptr<AgentTable>> AgentTable::in_waiting(const AgentTableOptions& options, Listener listener,
                                                           Clock& clock, Logger& log, const std::string& lost_host,
                                                           LostLead lost) {
  LH_TRY(std::string secret, read_lead_secret(options.secret_path));
  std::unique_ptr<AgentTable> table(new AgentTable(options, std::move(secret), std::move(listener), clock, log));
  table->owns_files_ = false;
  table->asks_.emplace(std::max(options.asks, options.epoch + 1), options.host);
  table->opened_ns_ = clock.monotonic_ns();
  table->lost_host_ = lost_host, table->lost_ = lost;
  if (!lost.at.address.empty()) table->knocks_.emplace(std::move(lost.at), clock);
  return table;
}

// Whoever has not turned to this lead so far has been missing since it waited. Where the former lead was, longer: but
// only if its kernel is silent as well, for a lead dies alone, too, and never so long that an agent there had no time
// to come here.
std::int64_t AgentTable::missing_since_ns(const std::string& host, const std::set<std::string>& gone) const {
  if (gone.count(host) > 0 && lost_.since_ns > 0) return std::min(lost_.since_ns, opened_ns_);
  const bool silent = host == lost_host_ && knocks_ && !knocks_->answers() && lost_.since_ns > 0;
  return silent ? std::clamp(lost_.since_ns, opened_ns_ - turns_within_ns, opened_ns_) : opened_ns_;
}

Status AgentTable::take_over(const std::set<std::string>& gone) {
  LH_ASSERT(asks_.has_value(), "a lead that waits for nothing");
  options_.epoch = asks_->number;
  asks_.reset();
  owns_files_ = true;
  // Before anybody is sent away: who comes back at once reads it.
  const Status written = write_lead_address(options_.address_path, address());
  links_.clear();
  for (auto& [host, agent] : agents_) {
    if (!agent.connected && host == lost_host_) agent.peer = lost_.at;  // asked again before another agent is started
    agent.heard_ns = agent.lost_ns = agent.connected ? clock_.monotonic_ns() : missing_since_ns(host, gone);
    agent.connected = false;
  }
  knocks_.reset();
  return written;
}

Result<std::unique_ptr<AgentTable>> AgentTable::open(const AgentTableOptions& options, Clock& clock, Logger& log) {
  LH_TRY(std::string secret, make_lead_secret(options.secret_path));
  LH_TRY(Listener listener, Listener::open_in(options.ports, options.everywhere));
  std::unique_ptr<AgentTable> table(new AgentTable(options, std::move(secret), std::move(listener), clock, log));
  LH_CHECK(write_lead_address(options.address_path, table->address()));
  return table;
}

void AgentTable::look_for_successor() {
  const auto found = read_lead_address(options_.address_path);
  const bool recorded = !options_.record_path.empty() && file_exists(options_.record_path);
  const Succession succession = succession_of(found, own_epoch(), recorded);
  superseded_ = superseded_ || succession == Succession::followed;
  if (superseded_ || succession != Succession::address_gone) return;
  const Status written = write_lead_address(options_.address_path, address());
  log_.warn("event=address_gone next=" + (written.ok() ? std::string("write_it_again")
                                                       : "lead_without_it error='" + written.error().message() + "'"));
}

void AgentTable::look() {
  if (knocks_) knocks_->look();
  for (const std::unique_ptr<Link>& link : links_)
    if (!link->over && !pump(*link)) link->over = true;
  std::erase_if(links_, [](const std::unique_ptr<Link>& link) { return link->over; });
  take_new_connections();  // after those that wait had their turn: one that has answered is no stranger any more
  strangers_.look();
  // What was answered to one may be for another.
  for (const std::unique_ptr<Link>& link : links_)
    if (link->connection.session().has_outgoing()) (void)link->connection.flush().ok();  // if not, the next look tells
}

// Words go to those that look for them as they come: many ranks wait for one of them.
void AgentTable::pass_on(const std::string& from, const StoreMessage& words) {
  const RendezvousStore::Outcome outcome = words_.take(from, words);
  for (const std::string& problem : outcome.problems)
    log_.error(format("event=word_refused launch={} what='{}'", words_.launch(), problem));
  for (const std::unique_ptr<Link>& link : links_) {
    const auto found = outcome.to_hosts.find(link->host);
    if (found == outcome.to_hosts.end() || link->over || !link->connection.session().open()) continue;
    for (const StoreMessage& part : split_store_message(found->second))
      link->connection.session().send(WireKind::words, store_message_to_value(part));
  }
}

void AgentTable::refuse(const Link& link, const std::string& why) {
  ++refused_;
  strangers_.note(link.address, why);
}

// An agent comes from the same address again and again: once all have come, others are none of them.
bool AgentTable::outside(const std::string& address) const {
  return std::none_of(agents_.begin(), agents_.end(), [&](const auto& entry) {
    return entry.second.peer.address.empty() || entry.second.peer.address == address;
  });
}

void AgentTable::make_room() {
  std::vector<Stranger> strangers;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < links_.size(); ++i) {
    if (!links_[i]->host.empty()) continue;
    strangers.push_back({links_[i]->address, links_[i]->since_ns, links_[i]->outside});
    places.push_back(i);
  }
  if (strangers.size() < strangers_besides_hosts + options_.hosts.size()) return;
  const std::size_t place = places[stranger_to_drop(strangers)];
  refuse(*links_[place], format("{} connections have not shown that they know the secret", strangers.size()));
  links_.erase(links_.begin() + static_cast<std::ptrdiff_t>(place));
}

void AgentTable::take_new_connections() {
  for (int accepted = 0; accepted < accepted_at_once; ++accepted) {
    auto socket = listener_.accept();
    if (!socket.ok() || !socket->valid()) return;
    const auto nonce = random_hex(static_cast<int>(wire_nonce_bytes));
    if (!nonce.ok()) {
      ++refused_;
      continue;
    }
    make_room();
    const std::string address = peer_of(socket->get()).address;
    links_.push_back(
        std::make_unique<Link>(Link{Connection(std::move(*socket), WireSession::lead(secret_, *nonce, own_epoch())), "",
                                    address, outside(address), clock_.monotonic_ns(), false}));
  }
}

bool AgentTable::pump(Link& link) {
  auto frames = link.connection.pump();
  const auto leave = [&](const std::string& why, bool unanswered = false) {
    (void)link.connection.flush().ok();  // the answer to another release
    if (link.host.empty()) {
      refuse(link, why);
    } else if (AgentState& agent = agents_[link.host]; agent.connected) {
      agent.connected = false;
      agent.lost_ns = clock_.monotonic_ns(), agent.unanswered = unanswered;
      log_.warn(format("event=agent_lost host={} reason='{}'", link.host, why));
    }
    return false;
  };
  if (!frames.ok()) return leave(frames.error().message(), frames.error().code == ErrorCode::timeout);
  for (const WireFrame& frame : *frames) {
    if (frame.kind == WireKind::hello) {
      if (!greet(link, frame)) return false;
      continue;
    }
    if (frame.kind == WireKind::promise) {
      take_promise(link, lead_epoch_of(frame.body));
      continue;
    }
    if (frame.kind == WireKind::words) {
      const auto words = store_message_from_value(frame.body);
      if (!words.ok()) return leave(words.error().message());
      pass_on(link.host, *words);
      continue;
    }
    auto report = node_report_from_value(frame.body);
    if (!report.ok()) return leave(report.error().message());
    AgentState& agent = agents_[link.host];
    agent.heard_ns = clock_.monotonic_ns();
    agent.report = std::move(*report);
  }
  if (link.host.empty() && clock_.monotonic_ns() - link.since_ns > hello_within_ms * 1'000'000)
    return leave("nothing was said");
  return true;
}

bool AgentTable::greet(Link& link, const WireFrame& hello) {
  const std::string host = hello.body.get_string("host");
  const auto refuse_agent = [&](const std::string& why, bool for_good = false) {
    ++refused_;
    log_.warn(format("event=agent_refused host='{}' reason='{}'", host, why));
    link.connection.session().refuse(why, for_good);
    (void)link.connection.pump().ok();  // says it, if it can be said at once
    return false;
  };
  if (asks_ ? hello.epoch.number > options_.epoch : hello.epoch > own_epoch()) {
    superseded_ = true;
    return refuse_agent(
        format("this lead is of epoch {}, the agent has seen {}", own_epoch().text(), hello.epoch.text()));
  }
  if (!agents_.contains(host)) return refuse_agent("this attempt has no such host");
  AgentState& agent = agents_[host];
  const std::int64_t pid = hello.body.get_integer("pid");
  // Two agents of a host, one of which was believed dead: the one that is heard stays.
  if (agent.connected && agent.pid != pid && clock_.monotonic_ns() - agent.heard_ns < heard_lately_ms * 1'000'000)
    return refuse_agent(format("agent {} of this host is at work", agent.pid), true);
  // An agent that comes again has lost us without our notice.
  for (const std::unique_ptr<Link>& other : links_)
    if (other.get() != &link && other->host == host) other->over = true;
  link.host = host;
  Value welcome = Value::make_table();
  welcome.set("wall_ms", clock_.wall_ms());  // an agent tells whether its clock is off
  welcome.set("ports", options_.ports.text());
  if (asks_) welcome.set("asks", lead_epoch_to_value(*asks_));
  link.connection.session().welcome(welcome);
  agent.connected = !asks_;
  agent.heard_ns = clock_.monotonic_ns();
  agent.pid = pid;
  agent.peer = peer_of(link.connection.descriptor());
  log_.info(format("event=agent_connected host={} pid={}", host, pid));
  tell_what_to_watch(link);
  return true;
}

// Until it has promised it is another's voice, or nobody's.
void AgentTable::take_promise(Link& link, const LeadEpoch& promised) {
  if (!asks_) return;  // of the time before this one took over
  AgentState& agent = agents_[link.host];
  if (promised != *asks_)
    log_.info(format("event=promised_to_another host={} promised='{}' asked='{}'", link.host, promised.text(),
                     asks_->text()));
  agent.connected = promised == *asks_;
  agent.heard_ns = clock_.monotonic_ns();
}

void AgentTable::tell_what_to_watch(Link& link) {
  const auto watched = watched_.find(link.host);
  if (watched == watched_.end()) return;
  AgentOrder watch = watched->second;
  watch.left_ms = left_ms();
  link.connection.session().send(WireKind::order, agent_order_to_value(watch));
  if (restart_epoch_ == 0 || watched->second.ranks.empty()) return;
  link.connection.session().send(WireKind::order, agent_order_to_value(restart_order(watched->second)));
}

AgentOrder AgentTable::restart_order(const AgentOrder& watched) const {
  AgentOrder restart;
  restart.kind = AgentOrder::Kind::restart;
  restart.launch = watched.launch, restart.ranks = watched.ranks, restart.epoch = restart_epoch_;
  return restart;
}

void AgentTable::watch(int launch, const std::string& folder, const std::map<std::string, std::vector<int>>& ranks_of,
                       std::int64_t restart_wait_ms, std::int64_t end_by_ns, const std::string& words) {
  watched_.clear();
  end_by_ns_ = end_by_ns;
  words_.begin(launch);
  restart_epoch_ = 0;
  for (const std::string& host : options_.hosts) {
    const auto ranks = ranks_of.find(host);
    AgentOrder watch;
    watch.kind = AgentOrder::Kind::watch;
    watch.launch = launch, watch.folder = folder, watch.restart_wait_ms = restart_wait_ms, watch.words = words;
    if (ranks != ranks_of.end()) watch.ranks = ranks->second;
    watched_[host] = watch;
  }
  for (auto& [host, agent] : agents_) agent.report.launch = 0, agent.report.ranks.clear();
  for (const std::unique_ptr<Link>& link : links_)
    if (!link->host.empty() && link->connection.session().open()) tell_what_to_watch(*link);
}

void AgentTable::order(const std::string& host, const AgentOrder& order) {
  for (const std::unique_ptr<Link>& link : links_)
    if (link->host == host && link->connection.session().open())
      link->connection.session().send(WireKind::order, agent_order_to_value(order));
}

void AgentTable::order_all(const AgentOrder& order) {
  for (const std::unique_ptr<Link>& link : links_)
    if (!link->host.empty() && link->connection.session().open())
      link->connection.session().send(WireKind::order, agent_order_to_value(order));
}

void AgentTable::signal(const std::string& host, const std::vector<int>& ranks, int signal_number) {
  const auto watched = watched_.find(host);
  const int launch = watched == watched_.end() ? 0 : watched->second.launch;
  AgentOrder signal;
  signal.kind = AgentOrder::Kind::signal;
  signal.launch = launch, signal.ranks = ranks, signal.signal = signal_number;
  order(host, signal);
}

void AgentTable::restart(std::int64_t epoch) {
  words_.new_epoch();
  restart_epoch_ = epoch;
  for (const auto& [host, watched] : watched_)
    if (!watched.ranks.empty()) order(host, restart_order(watched));
}

std::int64_t AgentTable::left_ms() const {
  return end_by_ns_ == 0 ? 0 : std::max<std::int64_t>(1, (end_by_ns_ - clock_.monotonic_ns()) / 1'000'000);
}

void AgentTable::must_end_by(std::int64_t end_ns) {
  end_by_ns_ = end_ns;
  for (const auto& [host, watched] : watched_) {
    AgentOrder end_by;
    end_by.kind = AgentOrder::Kind::end_by;
    end_by.launch = watched.launch, end_by.left_ms = left_ms();
    order(host, end_by);
  }
}

void AgentTable::order_page(const std::string& host, int rank, const Order& user) {
  const auto watched = watched_.find(host);
  if (watched == watched_.end()) return;
  AgentOrder page;
  page.kind = AgentOrder::Kind::page;
  page.launch = watched->second.launch, page.ranks = {rank};
  page.id = user.id, page.what = user.what, page.value = user.value;
  order(host, page);
}

void AgentTable::dump_stacks(const std::string& folder) {
  for (const auto& [host, watched] : watched_) {
    if (watched.ranks.empty()) continue;
    AgentOrder stacks;
    stacks.kind = AgentOrder::Kind::stacks;
    stacks.launch = watched.launch, stacks.folder = folder, stacks.ranks = watched.ranks;
    order(host, stacks);
  }
}

void AgentTable::ping() {
  AgentOrder ping;
  ping.kind = AgentOrder::Kind::ping;
  order_all(ping);
}

void AgentTable::end(std::int64_t wait_ms) {
  order_all(AgentOrder{});  // end
  for (const Deadline deadline(clock_, wait_ms); !deadline.passed() && !links_.empty();) {
    std::erase_if(links_, [](const std::unique_ptr<Link>& link) { return !link->connection.pump().ok(); });
    if (!links_.empty()) clock_.sleep_ms(10);
  }
  links_.clear();
}

int AgentTable::connected() const {
  return static_cast<int>(
      std::count_if(agents_.begin(), agents_.end(), [](const auto& entry) { return entry.second.connected; }));
}

std::vector<int> AgentTable::descriptors() const {
  std::vector<int> all = {listener_.descriptor()};
  for (const std::unique_ptr<Link>& link : links_) all.push_back(link->connection.descriptor());
  return all;
}

}  // namespace longhaul
