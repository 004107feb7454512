// Messages on their way: files of the run, so that nothing is lost when a program ends and that whoever has a way to
// the internet can send what somebody else wrote.
//
//   notify/outbox/<id>.json   written once (created exclusively); waits, with what became of earlier tries
//   notify/sending/<id>.json  somebody sends it now: taken by link(2), so only one of two senders has it. One whose
//                             sender was killed is taken back when it has not changed for a while
//   notify/sent/<id>.json     delivered
// A message is sent once; only a receiver whose answer was lost, or a sender that was killed between answer and rename,
// can make it twice, and then it carries the same id (in the body and as Idempotency-Key).
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/http/http_post.h"
#include "base/system/clock.h"
#include "orchestrator/notify/message.h"
#include "orchestrator/notify/notify_config.h"
#include "orchestrator/notify/secret.h"

namespace longhaul {

// Leaves a message; one that was left before, by whomever, is left alone.
Status post_message(const std::string& run_dir, const Message& message);

using Poster = std::function<Result<HttpAnswer>(const HttpPost&)>;

struct DeliveryOptions {
  std::int64_t deadline_ms = 5'000;  // of the whole call
  bool wait = false;                 // for the next try of what failed, until the deadline
  bool again = false;                // also what was given up
  Poster poster;                     // empty: http_post
};
struct DeliveryReport {
  int sent = 0;         // by this call
  int waiting = 0;      // to be tried again
  int given_up = 0;     // kept: too many tries, or refused for good
  std::string problem;  // of the newest try that failed, without secrets
};
// Sends what is due. An error only where nothing can be sent at all: the secret cannot be read, the folder not listed.
Result<DeliveryReport> deliver_outbox(const std::string& run_dir, const NotifyConfig& config,
                                      const Environment& environment, Clock& clock, const DeliveryOptions& options);

// What lies there, without sending. Cheap where there is nothing.
DeliveryReport outbox_backlog(const std::string& run_dir);

}  // namespace longhaul
