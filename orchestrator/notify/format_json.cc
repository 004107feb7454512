#include "base/value/json.h"
#include "orchestrator/notify/message_format.h"

namespace longhaul {

// The message as it stands in the outbox, for programs.
std::string json_body(const Message& one) {
  return to_json(message_to_value(one));
}

}  // namespace longhaul
