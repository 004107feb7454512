// Fields of requests to the server of a model (/v1/chat/completions, /v1/completions): what is done, what is refused by
// name because it would change an answer and is not done, and what is known to change nothing. The server and
// docs/compatibility.md read these tables. A field that is in none of them is not looked at.
#pragma once

#include <span>
#include <vector>

namespace longhaul {

enum class RequestKind { both, chat, completion };

struct DoneField {
  RequestKind of;
  const char* key;
  const char* meaning;
};
std::span<const DoneField> done_fields();

struct UndoneField {
  const char* key;
  std::vector<const char*> harmless;  // values, as JSON, that ask for nothing; null always does
  const char* why;
};
std::span<const UndoneField> undone_fields();
// The same of a message: {"role", "content", ...}.
std::span<const UndoneField> undone_message_fields();

struct HarmlessField {
  const char* key;
  const char* why;
};
std::span<const HarmlessField> harmless_fields();

// Who speaks in a message, and the role that it is in the conversation; nullptr: known, and refused.
struct RequestRole {
  const char* name;
  const char* role;
};
std::span<const RequestRole> request_roles();

}  // namespace longhaul
