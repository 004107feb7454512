// What a message looks like to its receiver: the registry of the values of `notify.format`. Each format is a row of the
// table and a file of its own beside this one (format_NAME.cc), which has the address of the receiver's documentation.
// Settings, their documentation and the outbox read the table; docs/extending.md says how to add a row.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/notify/message.h"

namespace longhaul {

struct MessageFormat {
  const char* name;                         // the value of `notify.format`
  std::string (*body)(const Message& one);  // of the request, sent as application/json
};

// The first one is the default.
const std::vector<MessageFormat>& message_formats();
std::vector<std::string> message_format_names();
// The end of the program if there is none of that name: settings are held to the names.
const MessageFormat& message_format(std::string_view name);

std::string json_body(const Message& one);
std::string slack_body(const Message& one);
std::string discord_body(const Message& one);

}  // namespace longhaul
