// Room worker/lead/agents
// The agents of a job, one on each host: how they are started, asked, missed and replaced.
// Start with agent_table.h (who is there, what each said last); launch_orders.h the orders they get,
// lead_in_waiting.h a lead before it leads. missing_agents.h and replacement_agents.h look after those that do not
// come. heard_hosts.h counts a majority; host_health_watch.h collects findings; rendezvous_store.h keeps rendezvous
// files. It knows neither ranks nor the decision to restart: those are monitor's and the lead's.
//
// The agents of an attempt, as its lead sees them: who has connected, what each said last and when. One thread, which
// calls look() often.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/process/log.h"
#include "base/system/clock.h"
#include "contracts/control/order.h"
#include "worker/lead/agents/launch_orders.h"
#include "worker/lead/agents/lead_in_waiting.h"
#include "worker/lead/agents/rendezvous_store.h"
#include "worker/lead/connections/agent_links.h"
#include "worker/protocol/node/node_report.h"
#include "worker/protocol/wire/lead_address.h"
#include "worker/protocol/wire/lost_lead.h"

namespace longhaul {

struct AgentTableOptions {
  std::string attempt_key;
  std::string address_path, secret_path;  // worker/protocol/wire/lead_address.h
  std::string host;                       // as agents reach this one
  std::int64_t epoch = 1;                 // its number; of a lead in waiting that of the lead that was lost
  bool everywhere = false;                // agents come from other hosts
  std::vector<std::string> hosts;         // one agent each
  std::string record_path = {};           // of the job's end; "": nobody writes one
  std::int64_t asks = 0;  // of a lead in waiting: the epoch that it wants to lead in; 0: the one after `epoch`
  PortRange ports = {};   // of this one and, by its order, of whatever listens on the job's nodes
  std::vector<std::string> addresses = {};  // of this host, beside its name (lead_address.h)
};

struct AgentState {
  std::int64_t heard_ns = 0;  // the last message of it; 0: none yet
  bool connected = false;
  std::int64_t lost_ns = 0;  // when the connection broke; of use while not connected
  bool unanswered = false;   // it broke for want of an answer, and nobody there has closed it
  std::int64_t pid = 0;      // of the newest that has connected, on its host
  PeerAddress peer;          // from where
  NodeReport report;
};

class AgentTable {
 public:
  // Listens, and only then writes the address.
  static Result<std::unique_ptr<AgentTable>> open(const AgentTableOptions& options, Clock& clock, Logger& log);
  ~AgentTable();

  // Of a lead in waiting: listens already, with the number of the lead that is lost, and writes no address, until
  // take_over(): then agents find it by its file as well, and those that are there come back to the new epoch. Until
  // then only agents that have promised it that epoch count as connected (worker/agent/leads/epoch_promise.h); and
  // until then it knocks at `lost_host`, where that lead was: if the kernel there says nothing, that node has been
  // missing since the standby lost the lead, and any other that has not come since this one waited.
  static Result<std::unique_ptr<AgentTable>> in_waiting(const AgentTableOptions& options, Listener listener,
                                                        Clock& clock, Logger& log, const std::string& lost_host = {},
                                                        LostLead lost = {});
  // An error says that the address could not be written; it leads all the same, and agents know the way from before.
  // `gone`: nodes that the scheduler has taken out of the job, missing since that lead was lost whatever their kernels
  // say.
  Status take_over(const std::set<std::string>& gone = {});

  // Takes what has come. Who says nothing sensible, or is not ours, loses its connection without an answer; that is
  // logged, a line a minute. A connection has 5 s to show that it knows the secret.
  void look();
  // What every agent is to watch from now on, also one that connects later. `ranks_of`: by host; others have none.
  // `store_dir`: where they leave entries for each other on their nodes (contracts/control/rendezvous_folder.h), which
  // this carries.
  void watch(int launch, const std::string& folder, const std::map<std::string, std::vector<int>>& ranks_of,
             std::int64_t restart_wait_ms = 0, std::int64_t end_by_ns = 0, const std::string& store_dir = {});
  void signal(const std::string& host, const std::vector<int>& ranks, int signal_number);
  // To one agent; to all of them. Those that connect later do not get it.
  void order(const std::string& host, const AgentOrder& order);
  void order_all(const AgentOrder& order);
  // Every rank of the launch goes on in-process, in that epoch; also those whose agent has just died, once another
  // comes.
  void restart(std::int64_t epoch);
  // Tells every rank of the launch when it will be killed; later ones, too. CLOCK_MONOTONIC of this host: sent is
  // how long it is until then, and each agent counts from there by its own clock.
  void must_end_by(std::int64_t end_ns);
  // To the page of one rank of the launch, which is on that host.
  void order_page(const std::string& host, int rank, const Order& order);
  // Every agent writes what its ranks are doing (worker/stacks/stack_dumps.h), to a folder that all nodes see.
  void dump_stacks(const std::string& folder);
  // Nothing is to be done: the lead lives.
  void ping();
  // They have no more work. Waits at most `wait_ms` until they have gone.
  void end(std::int64_t wait_ms);

  const std::map<std::string, AgentState>& agents() const { return agents_; }
  int connected() const;
  std::int64_t epoch() const { return options_.epoch; }  // its number
  LeadAddress address() const {
    return {options_.attempt_key, options_.epoch, options_.host, links_.port(), options_.addresses};
  }
  const PortRange& ports() const { return options_.ports; }
  std::vector<int> descriptors() const { return links_.descriptors(); }  // for poll(2)
  // Somebody reported a later epoch: another lead has taken over.
  bool superseded() const { return superseded_; }
  // For a lead that may have stood still and finds itself alone: agents that have turned to another one do not come
  // back to say so. The file of the address names that one, or is gone with it, and the record is there (succession.h).
  // An address that somebody else has removed is written again.
  void look_for_successor();
  int refused() const { return links_.refused(); }  // connections so far

 private:
  AgentTable(const AgentTableOptions& options, std::string secret, Listener listener, Clock& clock, Logger& log);
  LeadEpoch own_epoch() const {
    return waiting_ ? LeadEpoch(options_.epoch) : LeadEpoch(options_.epoch, options_.host);
  }
  bool is_outside(const std::string& address) const;
  // Whether the link stays.
  bool pump(AgentLink& link);
  Status take(const AgentLink& link, const WireFrame& frame);
  bool leave(AgentLink& link, const std::string& why, bool unanswered = false);
  bool greet(AgentLink& link, const WireFrame& hello);
  void take_promise(const AgentLink& link, const LeadEpoch& promised);
  void send_watch_order(AgentLink& link);
  void pass_on(const std::string& from, const StoreMessage& entries);
  void send(const HostOrders& orders);

  AgentTableOptions options_;
  std::optional<LeadInWaiting> waiting_;  // until it takes over
  Clock& clock_;
  Logger& log_;
  AgentLinks links_;
  std::map<std::string, AgentState> agents_;
  LaunchOrders orders_;
  RendezvousStore store_;
  bool superseded_ = false;
  bool owns_files_ = true;  // the secret goes with it; not while another lead may live
};

}  // namespace longhaul
