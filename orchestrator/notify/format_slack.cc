#include "base/text/text.h"
#include "base/value/json.h"
#include "orchestrator/notify/message_format.h"

namespace longhaul {

// https://api.slack.com/messaging/webhooks, with & < > escaped as it asks.
std::string slack_body(const Message& one) {
  std::string text = replace_all(one.text, "&", "&amp;");
  text = replace_all(replace_all(text, "<", "&lt;"), ">", "&gt;");
  Value body = Value::make_table();
  body.set("text", text);
  return to_json(body);
}

}  // namespace longhaul
