// How a run is doing, as one JSON document: what `status` prints with --json, and all commands that drive a run or stop
// it print at their end (docs/reference/json.md, "status").
#pragma once

#include <cstdint>
#include <string>

#include "base/value/value.h"
#include "orchestrator/state/run_status.h"

namespace longhaul {

// With where the time went, as far as that can be read: `problem` says why it cannot, and is "" otherwise.
Value status_document(const RunStatus& status, std::int64_t now_ms, std::string& problem);

// The newest state of the run, printed; problems go to standard error. An error where the run cannot be read.
Status print_status_document(const std::string& run_dir, std::int64_t now_ms);

inline constexpr int tune_document_format = 1;
// What `tune --json` prints of a run: how its last stage, which was asked for, has ended, and what it found.
Status print_tune_document(const std::string& run_dir, std::int64_t now_ms);

}  // namespace longhaul
