// Room worker/lead/connections
// The port of a lead: connections that agents open to it, and those of others, who show no secret.
// agent_links.h keeps them all; strangers.h says which goes where there is no room for another.
// It does not know what agents say once they are known: worker/lead/agents does.
//
// The connections to a lead's port. One thread. A connection belongs to a host once its agent has said hello, and to
// nobody until then. Of those that belong to nobody, 64 more than the job has hosts may be open: then one of them goes
// for the next.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/process/log.h"
#include "base/system/clock.h"
#include "worker/protocol/wire/connection.h"
#include "worker/protocol/wire/lead_epoch.h"
#include "worker/protocol/wire/unauthenticated_log.h"

namespace longhaul {

struct AgentLink {
  Connection connection;
  std::string host;  // "": has not said hello
  std::string address;
  bool outside = false;  // strangers.h
  std::int64_t since_ns = 0;
  bool over = false;
};

class AgentLinks {
 public:
  // `hosts`: how many the job has.
  AgentLinks(Listener listener, std::string secret, std::size_t hosts, Clock& clock, Logger& log);

  int port() const { return listener_.port(); }
  std::vector<std::unique_ptr<AgentLink>>& all() { return links_; }
  std::vector<int> descriptors() const;  // for poll(2), the port's first

  // Takes new connections, as a lead of that epoch. `outside`: whether an address is of no host of the job.
  void accept(const LeadEpoch& own, const std::function<bool(const std::string& address)>& outside);
  // To the agent of one host; to those of all hosts. Who connects later gets nothing of it.
  void send(const std::string& host, WireKind kind, const Value& body);
  void send_all(WireKind kind, const Value& body);
  // Sends what waits, as far as it goes at once; what breaks is found by whoever pumps.
  void flush();

  void drop_those_over();
  void drop_older_of(const AgentLink& newest);  // of the same host: marks them as over
  void drop_all() { links_.clear(); }
  void close(std::int64_t wait_ms);  // once the other sides have gone, or after this time

  // Counts a connection that was refused; `why` is logged, a line a minute for all of them.
  void refuse(const AgentLink& link, const std::string& why);
  // Counts one whose agent is known and not wanted, and answers it so, if that goes at once; false.
  bool turn_away(AgentLink& link, const std::string& why, bool for_good);
  int refused() const { return refused_; }  // so far
  void log_refused() { refused_log_.look(); }

 private:
  void make_room();

  Listener listener_;
  std::string secret_;
  std::size_t hosts_;
  Clock& clock_;
  UnauthenticatedLog refused_log_;
  std::vector<std::unique_ptr<AgentLink>> links_;
  int refused_ = 0;
};

}  // namespace longhaul
