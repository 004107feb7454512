// Room orchestrator/notify
// Messages to people about a run: made of facts, kept as files, sent by HTTP.
// message.h makes them, outbox.h keeps them, notify_config.h is [notify] of a site file; message_format.h has a row for
// each kind of receiver. base/http sends; secret.h reads an address that must not be written down.
// It lies below the site, whose files configure it, and knows neither runs nor the ledger.
//
// From what happened in a run to the messages that people get. Pure: the same facts give the same messages with the
// same ids, in every controller, so that two of them do not send a thing twice.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>

#include "orchestrator/notify/notify_config.h"

namespace longhaul {

// A fact of a run's log in this room's terms.
struct RunNews {
  std::string kind;  // of the fact: "epoch", "failed", "retry", "requeued", "run_ended"; others are no news
  std::string stage;
  int attempt = 0;
  std::string cause, reason;  // of an end
  std::string state;          // of the run
  std::int64_t wall_ms = 0;
};

struct Message {
  std::string id;     // unique in the run; [a-z0-9_-]
  std::string event;  // one of notify_events()
  std::string run, workflow, run_dir;
  std::string stage;  // "" for the run as a whole
  int attempt = 0;
  std::string text;  // one or two lines for people, without secrets
  std::int64_t wall_ms = 0;
};

class MessageMaker {
 public:
  MessageMaker(std::string run, std::string workflow, std::string run_dir)
      : run_(std::move(run)), workflow_(std::move(workflow)), run_dir_(std::move(run_dir)) {}

  // All facts from the first on, in order. What the run's config does not want is left out by the caller.
  std::optional<Message> take(const RunNews& news);
  // A stage that has shown nothing for `silent_s`; `done` is where it stands: one message for each place.
  Message no_progress(const std::string& stage, int attempt, double silent_s, double done, std::int64_t wall_ms) const;

  // A stage that gets no further, since `since_ms`: one message for each time and cause.
  Message held_up(const std::string& stage, int attempt, const std::string& cause, const std::string& advice,
                  std::int64_t since_ms, std::int64_t wall_ms) const;

 private:
  Message make(const std::string& event, const std::string& stage, int attempt, std::int64_t wall_ms,
               const std::string& which) const;
  std::string run_, workflow_, run_dir_;
  std::map<std::tuple<std::string, std::string, int>, int> seen_;  // how often a fact of this kind came
};

Value message_to_value(const Message& message);
Message message_from_value(const Value& value);

}  // namespace longhaul
