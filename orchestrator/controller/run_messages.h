// What a controller has to do with messages: it leaves one for every fact that the site subscribes to, looks for stages
// that show no progress, and sends what waits where it may. Nothing here ever stops a run: problems are logged.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/process/log.h"
#include "base/system/clock.h"
#include "orchestrator/notify/outbox.h"
#include "orchestrator/state/run_folder.h"
#include "orchestrator/state/run_ledger.h"

namespace longhaul {

// [notify] of the run's frozen site.toml; not enabled if it has none.
Result<NotifyConfig> notify_config_of(const std::string& run_dir);
// Compute nodes may be offline: inside a job only where the site allows it.
bool may_send_here(const NotifyConfig& config, const Environment& environment);

class RunMessages {
 public:
  RunMessages(const std::string& run_dir, const FrozenRun& frozen, Environment environment, Clock& clock, Logger& log);

  // All facts from the first on, in order.
  void take(const std::vector<Fact>& facts);
  // At the end of a round.
  void look_and_send(const RunLedger& ledger);

 private:
  void look_for_silence(const RunLedger& ledger);
  void look_for_held_up(const RunLedger& ledger);
  void send();
  void post(const Message& message);

  std::string run_dir_;
  NotifyConfig config_;
  MessageMaker maker_;
  Environment environment_;
  Clock& clock_;
  Logger& log_;
  std::int64_t next_look_ns_ = 0, next_send_ns_ = 0;
  std::set<std::string> held_up_;  // ids of messages that were left
  std::string last_problem_;
};

}  // namespace longhaul
