// What a controller writes down: the log of its epoch, the ledger folded from all logs, and the messages that people
// get of the facts.
#pragma once

#include <string>
#include <vector>

#include "base/process/log.h"
#include "base/system/clock.h"
#include "orchestrator/controller/run_messages.h"
#include "orchestrator/state/epoch_log.h"
#include "orchestrator/state/run_folder.h"
#include "orchestrator/state/run_ledger.h"

namespace longhaul {

class RunJournal {
 public:
  RunJournal(EpochLog file, RunLedger ledger, RunMessages messages, Clock& clock, Logger& log)
      : file_(std::move(file)), ledger_(std::move(ledger)), messages_(std::move(messages)), clock_(clock), log_(log) {}

  // Folds what earlier controllers, or this one, wrote.
  void replay(const std::vector<Fact>& facts);
  // Appends and folds. After an error nothing more can be written.
  Status write(std::vector<Fact>& facts);
  // The same of outcomes; nothing where there are none.
  Status write_outcomes(std::vector<Fact>& outcomes);
  void send_messages() { messages_.look_and_send(ledger_); }

  const RunLedger& ledger() const { return ledger_; }
  std::int64_t epoch() const { return file_.epoch(); }
  Status check_newest() const { return file_.check_newest(); }  // conflict if a later epoch exists

 private:
  EpochLog file_;
  RunLedger ledger_;
  RunMessages messages_;
  Clock& clock_;
  Logger& log_;
  std::size_t refused_logged_ = 0;
};

}  // namespace longhaul
