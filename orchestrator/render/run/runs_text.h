// Many runs, or their stages, as a table and as JSON.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/value/value.h"
#include "orchestrator/index/runs_query.h"

namespace longhaul {

// A row as it is shown: whether somebody drives the run was looked up for those that have not ended.
struct ShownRun {
  RunsRow row;
  bool driven = false;
};

// Runs one line each, or stages where the query asks for them, in the order given; below it what a person can do about
// runs that nobody drives. A column of users where there are several, the folder's path where there are several.
std::string runs_text(const std::vector<ShownRun>& runs, const RunsQuery& query, std::int64_t now_ms);

// {"file": "longhaul runs", "format": 1, "runs": [...]}, or "stages". Every key stands in json_keys.cc.
Value runs_value(const std::vector<ShownRun>& runs, const RunsQuery& query);

}  // namespace longhaul
