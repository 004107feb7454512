#include "base/text/text.h"
#include "base/value/json.h"
#include "orchestrator/notify/message_format.h"

namespace longhaul {

// https://discord.com/developers/docs/resources/webhook: at most 2,000 characters, counted here as bytes, and nobody is
// called by a name ("@everyone") that happens to stand in a program's log.
std::string discord_body(const Message& one) {
  constexpr std::size_t bytes_max = 2000;
  Value mentions = Value::make_table();
  mentions.set("parse", ValueArray{});
  Value body = Value::make_table();
  body.set("content", repair_utf8(one.text.substr(0, bytes_max - 3)) + (one.text.size() > bytes_max - 3 ? "…" : ""));
  body.set("allowed_mentions", mentions);
  return to_json(body);
}

}  // namespace longhaul
