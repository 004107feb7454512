// Room worker/agent/leads
// How an agent finds a lead, follows it, and brings about another one when it is lost.
// lead_link.h is the connection; lead_choice.h says to whom to turn, lead_files.h where leads are; lead_memory.h and
// epoch_promise.h remember them. standby_duty.h starts a lead in waiting (stand_in.h).
// It knows nothing of ranks: what a lead orders about them is the agent's to do.
//
// The connection of an agent to whoever leads: finding a lead, greeting it, promising an epoch to one in waiting, and
// noticing that it is lost. A lead that is not there yet, or not there any more, is nothing to end for. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/process/log.h"
#include "base/system/clock.h"
#include "worker/agent/leads/epoch_promise.h"
#include "worker/agent/leads/lead_choice.h"
#include "worker/agent/leads/lead_files.h"
#include "worker/agent/leads/lead_memory.h"
#include "worker/protocol/wire/connection.h"
#include "worker/protocol/wire/unauthenticated_log.h"

namespace longhaul {

class LeadLink {
 public:
  LeadLink(std::string host, const std::string& address_path, const std::string& secret_path, const Clock& clock,
           Logger& log);

  bool connected() const { return lead_.has_value(); }
  bool open() const { return lead_ && lead_->session().open(); }  // it has answered
  Connection& lead() { return *lead_; }

  // Turns to the next one, where it is time to (`hurried`: somebody waits for it). Whether a connection was made. An
  // error ends the agent: a secret that others can read.
  Result<bool> try_to_connect(bool hurried);
  // It has spoken.
  void heard() { said_ns_ = clock_.monotonic_ns(); }
  void welcomed();
  std::int64_t greeted_ms_ago() const { return (clock_.monotonic_ns() - connected_ns_) / 1'000'000; }
  // The answer to a lead in waiting, which is no lead yet. Whether it stays the one that we wait with; else it is to be
  // lost with this error.
  Status promise(const LeadEpoch& asked);
  // Nothing was heard for too long: why it is to be lost. `silent`: it may only be cut off.
  struct Overdue {
    Error why;
    bool silent = false;
  };
  std::optional<Overdue> overdue() const;

  // Lets go of it. Whether it had answered. Ends the agent (an error) only for what was said in a signed frame: refused
  // for good (but where this agent has started a lead itself: `leads_itself`), or of another release. What strangers
  // say at an address where a lead was, or is to be, is another try.
  Result<bool> lose(const Error& why, bool silent, bool leads_itself);
  // The job is over for this agent: it is not looked for again.
  void close() { lead_.reset(); }
  void look_at_strangers() { strangers_.look(); }

  LeadChoice& choice() { return choice_; }
  const LeadMemory& memory() const { return memory_; }
  const LeadEpoch& epoch() const { return epoch_; }  // the newest that has led
  const LeadEpoch& promised() const { return promise_.newest(); }

 private:
  std::int64_t welcome_ms() const;

  std::string host_;
  const Clock& clock_;
  Logger& log_;
  UnauthenticatedLog strangers_;  // who answers where a lead was looked for
  LeadFiles files_;
  LeadChoice choice_;
  LeadMemory memory_;
  std::optional<Connection> lead_;
  std::string secret_;
  LeadEpoch epoch_;
  EpochPromise promise_;
  bool only_waits_ = false;  // whom we are connected to
  std::int64_t connected_ns_ = 0, said_ns_ = 0, next_try_ns_ = 0;
};

}  // namespace longhaul
