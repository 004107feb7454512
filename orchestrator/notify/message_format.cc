#include "orchestrator/notify/message_format.h"

#include <algorithm>

namespace longhaul {

const std::vector<MessageFormat>& message_formats() {
  static const std::vector<MessageFormat> formats = {
      {"json", json_body},
      {"slack", slack_body},
      {"discord", discord_body},
  };
  return formats;
}

std::vector<std::string> message_format_names() {
  std::vector<std::string> names;
  for (const MessageFormat& format : message_formats()) names.emplace_back(format.name);
  return names;
}

const MessageFormat& message_format(std::string_view name) {
  const std::vector<MessageFormat>& formats = message_formats();
  const auto found = std::ranges::find_if(formats, [&](const MessageFormat& one) { return one.name == name; });
  LH_ASSERT(found != formats.end(), std::string(name));
  return *found;
}

}  // namespace longhaul
