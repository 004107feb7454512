#include "worker/lead/connections/agent_links.h"

#include <algorithm>

#include "base/digest/hash.h"
#include "base/text/text.h"
#include "worker/lead/connections/strangers.h"
#include "worker/protocol/wire/host_address.h"

namespace longhaul {
namespace {

constexpr std::size_t strangers_besides_hosts = 64;  // connections that have not said hello
constexpr int accepted_at_once = 64;

}  // namespace

AgentLinks::AgentLinks(Listener listener, std::string secret, std::size_t hosts, Clock& clock, Logger& log)
    : listener_(std::move(listener)),
      secret_(std::move(secret)),
      hosts_(hosts),
      clock_(clock),
      refused_log_("connection_refused", clock, log) {}

std::vector<int> AgentLinks::descriptors() const {
  std::vector<int> all = {listener_.descriptor()};
  for (const std::unique_ptr<AgentLink>& link : links_) all.push_back(link->connection.descriptor());
  return all;
}

void AgentLinks::make_room() {
  std::vector<Stranger> strangers;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < links_.size(); ++i) {
    if (!links_[i]->host.empty()) continue;
    strangers.push_back({links_[i]->address, links_[i]->since_ns, links_[i]->outside});
    places.push_back(i);
  }
  if (strangers.size() < strangers_besides_hosts + hosts_) return;
  const std::size_t place = places[stranger_to_drop(strangers)];
  refuse(*links_[place], format("{} connections have not shown that they know the secret", strangers.size()));
  links_.erase(links_.begin() + static_cast<std::ptrdiff_t>(place));
}

void AgentLinks::accept(const LeadEpoch& own, const std::function<bool(const std::string& address)>& outside) {
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
        std::make_unique<AgentLink>(AgentLink{Connection(std::move(*socket), WireSession::lead(secret_, *nonce, own)),
                                              "", address, outside(address), clock_.monotonic_ns(), false}));
  }
}

void AgentLinks::send(const std::string& host, WireKind kind, const Value& body) {
  for (const std::unique_ptr<AgentLink>& link : links_)
    if (link->host == host && !host.empty() && link->connection.session().open())
      link->connection.session().send(kind, body);
}

void AgentLinks::send_all(WireKind kind, const Value& body) {
  for (const std::unique_ptr<AgentLink>& link : links_)
    if (!link->host.empty() && link->connection.session().open()) link->connection.session().send(kind, body);
}

void AgentLinks::flush() {
  for (const std::unique_ptr<AgentLink>& link : links_)
    if (link->connection.session().has_outgoing()) (void)link->connection.flush().ok();
}

void AgentLinks::drop_those_over() {
  std::erase_if(links_, [](const std::unique_ptr<AgentLink>& link) { return link->over; });
}

void AgentLinks::close(std::int64_t wait_ms) {
  for (const Deadline deadline(clock_, wait_ms); !deadline.passed() && !links_.empty();) {
    std::erase_if(links_, [](const std::unique_ptr<AgentLink>& link) { return !link->connection.pump().ok(); });
    if (!links_.empty()) clock_.sleep_ms(10);
  }
  links_.clear();
}

void AgentLinks::drop_older_of(const AgentLink& newest) {
  for (const std::unique_ptr<AgentLink>& other : links_)
    if (other.get() != &newest && other->host == newest.host) other->over = true;
}

bool AgentLinks::turn_away(AgentLink& link, const std::string& why, bool for_good) {
  ++refused_;
  link.connection.session().refuse(why, for_good);
  (void)link.connection.pump().ok();
  return false;
}

void AgentLinks::refuse(const AgentLink& link, const std::string& why) {
  ++refused_;
  refused_log_.note(link.address, why);
}

}  // namespace longhaul
