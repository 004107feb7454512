// Room worker/protocol/node
// What agent and lead say to each other about a node, and what both use on their own node.
// node_report.h has the messages; health_watch.h runs the health program; host_exchange.h measures the network.
// reported_times.h converts times between hosts whose clocks differ; standby_state.h keeps the state of a lead.
// It does not know how ranks are read on a node (protocol/ranks), and nothing of lead or agent.
//
// What an agent reports to its lead of the ranks on its node, and what the lead orders it to do.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/value/value.h"
#include "resiliency/beat/heartbeat_page.h"
#include "resiliency/detect/hang/process_state.h"
#include "resiliency/health/health_finding.h"
#include "resiliency/health/host_figures.h"
#include "worker/protocol/node/host_exchange.h"

namespace longhaul {

// Where the ranks of a launch keep their pages, on every node: in memory, and apart from those of any other launch.
// Other users of a node cannot know the name before the launch is there; who makes it there checks whose it is
// (resiliency/beat/beat_folder.h).
inline constexpr const char* node_beat_prefix = "/dev/shm/longhaul-";
Result<std::string> new_node_beat_folder();

struct RankReport {
  BeatSnapshot beat;         // rank, pid, epoch, step, section, collectives; changed_ns is of no use elsewhere
  std::int64_t idle_ms = 0;  // since the page last changed
  ProcessState state = ProcessState::none;
  bool operator==(const RankReport&) const;  // but for the time that passed and the polls of a wait
};

// What was found wrong with a host, numbered from 1 by whoever looks after it.
struct HealthNote {
  std::int64_t serial = 0;
  HealthFinding finding;
};
struct HealthReport {
  std::int64_t since = 0;         // which watch numbers the notes: its process; 0: nobody looks at the host
  int looks = 0;                  // whole ones so far
  HostFigures figures;            // of the first look, where they were asked for
  std::vector<HealthNote> notes;  // the newest, oldest first
  std::string gpu_script = {};    // of simulated GPUs: the file on that node whose lines they play; "": they are real
  int gpus_watched = 0;           // whose faults the checks would see
  std::string gpus_hidden = {};   // why they see none of those that the job has; "": they see some, or it has none
};

// An injected fault that a node could not make.
struct FaultProblem {
  std::string id;  // of the order
  std::string why;
  bool operator==(const FaultProblem&) const = default;
};

struct NodeReport {
  std::string host;
  int launch = 0;                 // 0: none to be watched
  std::vector<RankReport> ranks;  // those with a page
  double agent_cpu_s = 0;         // what watching has cost
  std::int64_t agent_rss_kib = 0;
  int standby_port = 0;                  // where a lead in waiting would listen on this node; 0: nowhere
  std::vector<std::string> orders_done;  // of this launch (AgentOrder::Kind::page), by id
  HealthReport health = {};
  int exchange_port = 0;  // where this node takes what others send it in an exchange; 0: there is none
  std::vector<ExchangeFigure> exchanged = {};
  bool exchange_done = false;
  std::vector<FaultProblem> fault_problems = {};  // all so far
};
Value node_report_to_value(const NodeReport& report);
Result<NodeReport> node_report_from_value(const Value& value);

struct AgentOrder {
  enum class Kind {
    watch,
    signal,
    end,
    stacks,    // what the ranks are doing, into a file each
    restart,   // in-process, in this epoch
    ping,      // nothing is to be done: the lead lives
    standby,   // whom to turn to when the lead is lost
    state,     // this node is the standby, and that is what it would have to know
    fault,     // an injected one, of the agent itself: `folder` says which
    end_by,    // how long it is until the ranks are ended by force
    exchange,  // listens with the token `id`, or sends to `partners`; "": it is over
    page,      // a user's order (contracts/control/order.h), for the page of the first of `ranks`
  };
  Kind kind = Kind::end;
  int launch = 0;
  std::string folder;  // watch: where the pages lie on this node; stacks: where files of all nodes go; fault:
                       // "freeze" (ranks and agent), "silence" (for `lasts_ms`), "end", "gpu" (the lines `what`
                       // for the simulated GPUs), "message" (`what` to the programs of `ranks`); `id` is the fault's
  std::string store_dir =
      {};  // watch: where ranks on this node leave entries for others (rendezvous_folder.h); "": nowhere
  std::vector<int> ranks;  // watch, signal, stacks: those on this node
  int signal = 0;
  std::string host;                  // standby
  std::int64_t restart_wait_ms = 0;  // watch: how long a rank with a fault waits for an order; 0: it does not
  std::int64_t epoch = 0;            // restart
  int port = 0;                      // standby
  std::int64_t lasts_ms = 0;         // fault
  Value state;                       // state: worker/lead/failover/lead_state.h
  std::int64_t left_ms = 0;          // watch, end_by: until then, when the order is sent; 0: not known. No time of day:
                                     // the clocks of two hosts are never compared
  std::vector<ExchangePartner> partners;
  std::string id, what;  // page: contracts/control/order.h; fault; standby: where it is, as numbers
  double value = 0;      // page
};
Value agent_order_to_value(const AgentOrder& order);
Result<AgentOrder> agent_order_from_value(const Value& value);

}  // namespace longhaul
