// What makes an agent the standby: the state that the lead has sent it, a port where a lead in waiting would listen,
// and that lead once it is started. When that is done is the agent's to say. One thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "base/files/held_folder.h"
#include "base/process/log.h"
#include "base/process/process.h"
#include "base/system/clock.h"
#include "worker/protocol/wire/connection.h"
#include "worker/protocol/wire/lead_epoch.h"
#include "worker/protocol/wire/lost_lead.h"

namespace longhaul {

struct StandInOptions {
  std::string worker_program, attempt_dir;
  std::string address_path;  // of the lead; the standby's lies beside it
  std::string host;          // this one
};

class StandIn {
 public:
  StandIn(StandInOptions options, const Clock& clock, Logger& log)
      : options_(std::move(options)), clock_(clock), log_(log) {}
  ~StandIn();
  StandIn(const StandIn&) = delete;
  StandIn& operator=(const StandIn&) = delete;

  // Where a lead in waiting listens, should this node become the standby.
  void listen_in(const PortRange& ports) { ports_ = ports; }
  const PortRange& ports() const { return ports_; }
  // What the lead has sent just now. From the first time on this one is the standby, if it can listen.
  void keep(const Value& update, std::int64_t epoch);
  bool is_standby() const { return waiting_.has_value(); }
  int port() const { return waiting_ ? waiting_->port() : 0; }
  // The lead has named the standby. If that is another one, what is known here of its state grows old: this one is no
  // standby any more, or, where the lead is the one that was started here, once that one has ended. Whether it is none
  // since now.
  bool gives_way_to(const std::string& host);
  // Of standbys, if there are several. A file that cannot be read names nobody else.
  bool is_named_last() const;

  // A lead in waiting, after `led` was lost; `promised`: the newest epoch that this agent has promised anybody. What
  // hinders is logged.
  void start(const LostLead& lost, const LeadEpoch& led, const LeadEpoch& promised);
  bool running() const { return pid_ > 0; }
  // How it ended, once; an error: nobody knows.
  std::optional<Result<ExitStatus>> poll();

 private:
  Result<std::string> write_state();
  void give_up(const std::string& to);

  StandInOptions options_;
  const Clock& clock_;
  Logger& log_;
  PortRange ports_;
  std::optional<Listener> waiting_;
  Value state_;
  std::string followed_by_;  // the standby of the lead that was started here; "": it has named none
  std::string state_folder_;
  HeldFolder state_folder_held_;
  pid_t pid_ = -1;
};

}  // namespace longhaul
