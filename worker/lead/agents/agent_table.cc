#include "worker/lead/agents/agent_table.h"

#include <algorithm>

#include "base/files/file_query.h"
#include "base/files/files.h"
#include "base/text/text.h"
#include "worker/lead/agents/succession.h"

namespace longhaul {
namespace {

constexpr std::int64_t hello_within_ms = 5'000;
constexpr std::int64_t heard_lately_ms = 2'000;

// Two agents of a host, one of which was believed dead: the one that is heard stays.
bool is_other_at_work(const AgentState& agent, std::int64_t pid, std::int64_t now_ns) {
  return agent.connected && agent.pid != pid && now_ns - agent.heard_ns < heard_lately_ms * 1'000'000;
}

// The first message to an agent. By the time in it the agent finds whether its clock is off.
Value welcome_of(const PortRange& ports, const std::optional<LeadInWaiting>& waiting, std::int64_t wall_ms) {
  Value welcome = Value::make_table();
  welcome.set("wall_ms", wall_ms);
  welcome.set("ports", ports.text());
  if (waiting) welcome.set("asks", lead_epoch_to_value(waiting->asks()));
  return welcome;
}

}  // namespace

AgentTable::AgentTable(const AgentTableOptions& options, std::string secret, Listener listener, Clock& clock,
                       Logger& log)
    : options_(options),
      clock_(clock),
      log_(log),
      links_(std::move(listener), std::move(secret), options.hosts.size(), clock, log) {
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
  table->waiting_.emplace(LeadEpoch(std::max(options.asks, options.epoch + 1), options.host), lost_host,
                          std::move(lost), clock);
  return table;
}

Status AgentTable::take_over(const std::set<std::string>& gone) {
  LH_ASSERT(waiting_.has_value(), "a lead that waits for nothing");
  const LeadInWaiting waited = std::move(*waiting_);
  waiting_.reset();
  options_.epoch = waited.asks().number;
  owns_files_ = true;
  // Before anybody is sent away: who comes back at once reads it.
  const Status written = write_lead_address(options_.address_path, address());
  links_.drop_all();
  for (auto& [host, agent] : agents_) {
    // Asked again before another agent is started.
    if (!agent.connected && host == waited.lost_host()) agent.peer = waited.lost_at();
    agent.heard_ns = agent.lost_ns = agent.connected ? clock_.monotonic_ns() : waited.missing_since(host, gone);
    agent.connected = false;
  }
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
  // On doubt nothing is done: neither is this lead over, nor is its address written beside a record.
  const auto record = options_.record_path.empty() ? Result<bool>(false) : is_there(options_.record_path);
  if (!record.ok() && !found.ok()) return;
  const bool recorded = record.ok() && *record;
  const Succession succession = succession_of(found, own_epoch(), recorded);
  superseded_ = superseded_ || succession == Succession::followed;
  if (superseded_ || succession != Succession::address_gone) return;
  const Status written = write_lead_address(options_.address_path, address());
  log_.warn("event=address_gone next=" + (written.ok() ? std::string("write_it_again")
                                                       : "lead_without_it error='" + written.error().message() + "'"));
}

void AgentTable::look() {
  if (waiting_) waiting_->look();
  for (const std::unique_ptr<AgentLink>& link : links_.all())
    if (!link->over && !pump(*link)) link->over = true;
  links_.drop_those_over();
  // After those that wait had their turn: one that has answered is no stranger any more.
  links_.accept(own_epoch(), [this](const std::string& address) { return is_outside(address); });
  links_.log_refused();
  links_.flush();  // what was answered to one may be for another
}

// Entries go to those that look for them as they come: many ranks wait for one of them.
void AgentTable::pass_on(const std::string& from, const StoreMessage& entries) {
  const RendezvousStore::Outcome outcome = store_.take(from, entries);
  for (const std::string& problem : outcome.problems)
    log_.error(format("event=entry_refused launch={} what='{}'", store_.launch(), problem));
  for (const std::unique_ptr<AgentLink>& link : links_.all()) {
    const auto found = outcome.to_hosts.find(link->host);
    if (found == outcome.to_hosts.end() || link->over || !link->connection.session().open()) continue;
    for (const StoreMessage& part : split_store_message(found->second))
      link->connection.session().send(WireKind::store, store_message_to_value(part));
  }
}

// An agent comes from the same address again and again: once all have come, others are none of them.
bool AgentTable::is_outside(const std::string& address) const {
  return std::none_of(agents_.begin(), agents_.end(), [&](const auto& entry) {
    return entry.second.peer.address.empty() || entry.second.peer.address == address;
  });
}

bool AgentTable::leave(AgentLink& link, const std::string& why, bool unanswered) {
  (void)link.connection.flush().ok();  // the answer to another release
  if (link.host.empty()) {
    links_.refuse(link, why);
  } else if (AgentState& agent = agents_[link.host]; agent.connected) {
    agent.connected = false;
    agent.lost_ns = clock_.monotonic_ns(), agent.unanswered = unanswered;
    log_.warn(format("event=agent_lost host={} reason='{}'", link.host, why));
  }
  return false;
}

bool AgentTable::pump(AgentLink& link) {
  auto frames = link.connection.pump();
  if (!frames.ok()) return leave(link, frames.error().message(), frames.error().code == ErrorCode::timeout);
  for (const WireFrame& frame : *frames) {
    if (frame.kind == WireKind::hello) {
      if (!greet(link, frame)) return false;
    } else if (const Status taken = take(link, frame); !taken.ok()) {
      return leave(link, taken.error().message());
    }
  }
  if (link.host.empty() && clock_.monotonic_ns() - link.since_ns > hello_within_ms * 1'000'000)
    return leave(link, "nothing was said");
  return true;
}

Status AgentTable::take(const AgentLink& link, const WireFrame& frame) {
  if (frame.kind == WireKind::promise) {
    take_promise(link, lead_epoch_of(frame.body));
    return {};
  }
  if (frame.kind == WireKind::store) {
    LH_TRY(const StoreMessage entries, store_message_from_value(frame.body));
    pass_on(link.host, entries);
    return {};
  }
  LH_TRY(NodeReport report, node_report_from_value(frame.body));
  AgentState& agent = agents_[link.host];
  agent.heard_ns = clock_.monotonic_ns();
  agent.report = std::move(report);
  return {};
}

bool AgentTable::greet(AgentLink& link, const WireFrame& hello) {
  const std::string host = hello.body.get_string("host");
  const auto refuse_agent = [&](const std::string& why, bool for_good = false) {
    log_.warn(format("event=agent_refused host='{}' reason='{}'", host, why));
    return links_.turn_away(link, why, for_good);
  };
  if (waiting_ ? hello.epoch.number > options_.epoch : hello.epoch > own_epoch()) {
    superseded_ = true;
    return refuse_agent(
        format("this lead is of epoch {}, the agent has seen {}", own_epoch().text(), hello.epoch.text()));
  }
  if (!agents_.contains(host)) return refuse_agent("this attempt has no such host");
  AgentState& agent = agents_[host];
  const std::int64_t pid = hello.body.get_integer("pid");
  if (is_other_at_work(agent, pid, clock_.monotonic_ns()))
    return refuse_agent(format("agent {} of this host is at work", agent.pid), true);
  link.host = host;
  links_.drop_older_of(link);  // an agent that comes again has lost us without our notice
  link.connection.session().welcome(welcome_of(options_.ports, waiting_, clock_.wall_ms()));
  agent.connected = !waiting_;
  agent.heard_ns = clock_.monotonic_ns();
  agent.pid = pid;
  agent.peer = peer_of(link.connection.descriptor());
  log_.info(format("event=agent_connected host={} pid={}", host, pid));
  send_watch_order(link);
  return true;
}

// Until it has promised it is another's voice, or nobody's.
void AgentTable::take_promise(const AgentLink& link, const LeadEpoch& promised) {
  if (!waiting_) return;  // of the time before this one took over
  AgentState& agent = agents_[link.host];
  if (promised != waiting_->asks())
    log_.info(format("event=promised_to_another host={} promised='{}' asked='{}'", link.host, promised.text(),
                     waiting_->asks().text()));
  agent.connected = promised == waiting_->asks();
  agent.heard_ns = clock_.monotonic_ns();
}

void AgentTable::send_watch_order(AgentLink& link) {
  for (const AgentOrder& order : orders_.for_newcomer(link.host, clock_.monotonic_ns()))
    link.connection.session().send(WireKind::order, agent_order_to_value(order));
}

void AgentTable::watch(int launch, const std::string& folder, const std::map<std::string, std::vector<int>>& ranks_of,
                       std::int64_t restart_wait_ms, std::int64_t end_by_ns, const std::string& store_dir) {
  store_.begin(launch);
  orders_.begin(options_.hosts, launch, folder, ranks_of, restart_wait_ms, end_by_ns, store_dir);
  for (auto& [host, agent] : agents_) agent.report.launch = 0, agent.report.ranks.clear();
  for (const std::unique_ptr<AgentLink>& link : links_.all())
    if (!link->host.empty() && link->connection.session().open()) send_watch_order(*link);
}

void AgentTable::order(const std::string& host, const AgentOrder& order) {
  links_.send(host, WireKind::order, agent_order_to_value(order));
}

void AgentTable::order_all(const AgentOrder& order) {
  links_.send_all(WireKind::order, agent_order_to_value(order));
}

void AgentTable::send(const HostOrders& orders) {
  for (const auto& [host, one] : orders) order(host, one);
}

void AgentTable::signal(const std::string& host, const std::vector<int>& ranks, int signal_number) {
  order(host, orders_.signal(host, ranks, signal_number));
}

void AgentTable::restart(std::int64_t epoch) {
  store_.new_epoch();
  send(orders_.restart(epoch));
}

void AgentTable::must_end_by(std::int64_t end_ns) {
  send(orders_.must_end_by(end_ns, clock_.monotonic_ns()));
}

void AgentTable::order_page(const std::string& host, int rank, const Order& user) {
  if (const auto page = orders_.page(host, rank, user)) order(host, *page);
}

void AgentTable::dump_stacks(const std::string& folder) {
  send(orders_.stacks(folder));
}

void AgentTable::ping() {
  AgentOrder ping;
  ping.kind = AgentOrder::Kind::ping;
  order_all(ping);
}

void AgentTable::end(std::int64_t wait_ms) {
  order_all(AgentOrder{});  // end
  links_.close(wait_ms);
}

int AgentTable::connected() const {
  return static_cast<int>(
      std::count_if(agents_.begin(), agents_.end(), [](const auto& entry) { return entry.second.connected; }));
}

}  // namespace longhaul
