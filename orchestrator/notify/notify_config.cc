#include "orchestrator/notify/notify_config.h"

#include <algorithm>

#include "base/text/text.h"
#include "orchestrator/notify/message_format.h"

namespace longhaul {

const std::vector<std::string>& notify_events() {
  static const std::vector<std::string> events = NotifyConfig().events;
  return events;
}

bool NotifyConfig::wants(const std::string& event) const {
  return std::find(events.begin(), events.end(), event) != events.end();
}

const FieldTable<NotifyConfig>& notify_fields() {
  using N = NotifyConfig;
  static const auto table =
      FieldTable<N>()
          .field("format", &N::format, {.help = "of the message's body", .choices = message_format_names()})
          .field("events", &N::events, {.help = "which messages are sent", .choices = notify_events()})
          .field("url_file", &N::url_file, {.help = "file (mode 0600) that holds the webhook's address"})
          .field("url_env", &N::url_env, {.help = "variable that holds the webhook's address, instead of a file"})
          .field("token_file", &N::token_file, {.help = "file (mode 0600) with a bearer token to send along"})
          .field("token_env", &N::token_env, {.help = "variable with a bearer token to send along"})
          .field("ca_file", &N::ca_file, {.help = "PEM file of the certificates to trust; empty: the system's"})
          .field("timeout", &N::timeout, {.help = "of one try", .min = 0.1, .max = 300})
          .field("tries", &N::tries, {.help = "of one message, with growing pauses", .min = 1, .max = 100})
          .field("no_progress_after", &N::no_progress_after,
                 {.help = "a running stage that wrote nothing for so long is reported; 0s: never", .min = 0});
  return table;
}

void check_notify(const NotifyConfig& config, const SourcePos& where, Diagnostics& diagnostics) {
  if (!config.url_file.empty() && !config.url_env.empty())
    diagnostics.add(where, "notify has both url_file and url_env", "keep one of them");
  if (!config.token_file.empty() && !config.token_env.empty())
    diagnostics.add(where, "notify has both token_file and token_env", "keep one of them");
  for (const auto& [name, path] :
       {std::pair{"url_file", config.url_file}, {"token_file", config.token_file}, {"ca_file", config.ca_file}})
    if (!path.empty() && !starts_with(path, "/"))
      diagnostics.add(where, format("notify.{} = \"{}\" is not an absolute path", name, path),
                      "runs are driven from many folders and hosts");
  for (const std::string& event : config.events)
    if (!NotifyConfig().wants(event))
      diagnostics.add(where, "notify.events: there is no event '" + event + "'",
                      "one of " + join(notify_events(), ", "));
}

}  // namespace longhaul
