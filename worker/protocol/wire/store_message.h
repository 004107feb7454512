// Entries that ranks leave for each other (contracts/control/rendezvous_folder.h), on their way between agents and
// lead. An agent sends what its ranks have put and what they look for; the lead answers with what was looked for, once
// it has it.
#pragma once

#include <string>
#include <vector>

#include "base/error/result.h"
#include "base/value/value.h"

namespace longhaul {

struct StoreEntry {
  std::string name;
  std::string value;  // any bytes
  bool operator==(const StoreEntry&) const = default;
};

struct StoreMessage {
  // What its text may come to before another message is begun; far below what a frame may hold.
  static constexpr std::size_t text_bytes = std::size_t{128} << 10;

  int launch = 0;                   // of all of them
  std::vector<StoreEntry> entries;  // to the lead: put on that host; from it: looked for there
  std::vector<std::string> wanted;  // to the lead
  std::vector<StoreEntry> refused;  // from it, with the reason in the place of the value
  bool empty() const { return entries.empty() && wanted.empty() && refused.empty(); }
};
Value store_message_to_value(const StoreMessage& message);
// corrupt: it names no launch, a name is none, or a value is too long.
Result<StoreMessage> store_message_from_value(const Value& value);

// The same in messages that each fit into a frame.
std::vector<StoreMessage> split_store_message(const StoreMessage& message);

}  // namespace longhaul
