// Room worker/lead/injection
// Faults that a stage is to be tested with, made from outside of its ranks.
// fault_injector.h makes each once in the life of a stage; site_fault_commands.h runs programs of the site.
// It may not include recovery or placement: the lead must handle an injected fault as any other.
//
// Injects the faults that a stage is to be tested with (contracts/settings/job/faults.h): those of its workflow when
// they are due, and those that a person orders. From outside of the ranks wherever a signal, a file or a message to an
// agent can do it. One thread; look() never waits.
//
// A fault is injected once in the life of its stage, whatever becomes of the lead that did it: before anything happens
// a file <stage>/faults/<id> is created exclusively. Then it is written to events.jsonl, with the time and the place,
// so that what was found can be joined with what was done. No detector reads either.
//
//   injected   fault, rank, host, step, launch, means, id       by the lead; `rank` is to whom it happens; xid, device
//
// What could not be done is a warning there ("not injected: ..."), also where that shows only afterwards.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/process/log.h"
#include "base/system/clock.h"
#include "contracts/control/order.h"
#include "contracts/events/event.h"
#include "contracts/records/launch.h"
#include "resiliency/inject/injection_book.h"
#include "worker/lead/agents/agent_table.h"
#include "worker/lead/injection/site_fault_commands.h"
#include "worker/lead/monitor/rank_watch.h"
#include "worker/protocol/ranks/beat_sockets.h"

namespace longhaul {

// What is there to be hurt.
struct InjectionScene {
  const Launch& launch;
  const RankWatch& ranks;
  AgentTable* agents;   // null: all ranks are on this node
  std::string standby;  // host of the agent that would follow the lead; "": none
  std::string own_node;
  const std::map<int, pid_t>& started_here;  // processes of ranks that have no heartbeat
  // Without agents: what is known of this node's GPUs, and where its ranks speak. Null: nobody looks.
  const HealthReport* own_health = nullptr;
  BeatSockets* own_sockets = nullptr;
};

class FaultInjector {
 public:
  FaultInjector(const FaultSettings& settings, int ranks, std::string stage_dir, const Clock& clock,
                EventWriter& events, Logger& log);
  // Makes the folder, and the beginning that times of the stage count from, unless an earlier lead has.
  Status begin();
  // A person's order: it is done at the next look when it is due.
  OrderOutcome take(const Order& order);
  void look(const InjectionScene& scene);

 private:
  enum class Did { done, not_now, never };
  // `why`: of never.
  Did inject(const FaultRequest& fault, const Injection& injection, const InjectionScene& scene, std::string& why);
  Status act(const NamedFault& named, const Injection& injection, const InjectionScene& scene,
             const std::string& shard);
  // done: they can; not_now: the node's checks have not said yet; never: `why`.
  Did gpus_are_simulated(const FaultRequest& fault, const InjectionScene& scene, std::string& why) const;
  void look_for_problems(const InjectionScene& scene);
  void report_not_injected(const std::string& what);
  bool claim(const Injection& injection, int launch);
  void report_injected(const Injection& injection, const InjectionScene& scene);
  void keep_slow(const InjectionScene& scene);
  static pid_t pid_of(const InjectionScene& scene, int rank);  // -1: not there, or ended
  static void signal(const InjectionScene& scene, int rank, int signal_number);
  static void signal_self(const InjectionScene& scene, int signal_number);

  InjectionBook book_;
  FaultCommands site_;
  SiteFaultCommands site_commands_;
  std::string folder_;
  const Clock& clock_;
  EventWriter& events_;
  Logger& log_;
  std::int64_t begun_ms_ = 0;  // wall clock: it outlives leads
  struct Slow {
    int rank = -1, launch = 0;
    std::int64_t until_ns = 0;
    bool stopped = false, over = false;
  };
  std::vector<Slow> slow_;
  std::set<std::string> reported_problems_;  // by id of the injection
};

// The rank's shard of the newest whole checkpoint below the folder; "": there is none.
std::string newest_shard(const std::string& checkpoints, int rank);
// Turns every bit of one byte in its last quarter, where no header stands.
Status damage_file(const std::string& path);

}  // namespace longhaul
