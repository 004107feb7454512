// What it means for runs that a site removes files which nobody has used for some time (paths.scratch_purge). Such a
// rule goes by each file's times of access and change; Longhaul never changes those to get round it, which sites
// forbid.
#pragma once

#include <cstdint>
#include <string>

#include "orchestrator/state/run_status.h"

namespace longhaul {

// Of runs to come: what is removed after `purge_s`, and what to do.
std::string purge_rule_text(double purge_s);
// Of this run at `now_ms` (wall time), for `status`: the rule, and what is next to go once it has lain unused for half
// of the time. "" where the site, as it was frozen with the run, removes nothing. Reads no file, lest its times change.
std::string purge_note(const std::string& run_dir, const RunStatus& status, std::int64_t now_ms);

}  // namespace longhaul
