// What people ask of a run, as its controller reads it: files that anybody has made who may write into requests/.
#pragma once

#include <optional>
#include <string>

#include "orchestrator/decide/decide.h"

namespace longhaul {

// `folder`/`name`, whose author is the owner of the file. What is no regular file, no JSON, or lies under another name
// than the one under which it was left is "unreadable", which is refused. Nothing: it was removed meanwhile.
std::optional<RequestSeen> read_request(const std::string& folder, const std::string& name);

}  // namespace longhaul
