// Where the time of a run's trainings went: folded from the epoch logs, the records and the events of every attempt.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "resiliency/goodput/goodput_ledger.h"

namespace longhaul {

struct StageGoodput {
  std::string stage;  // id
  GoodputLedger ledger;
};

// Of every stage that has done a step in this run, from its first submission to its end, or to `now_ms`. Reads
// whole event files, of which it parses little (docs/benchmarks.md).
Result<std::vector<StageGoodput>> read_goodput(const std::string& run_dir, std::int64_t now_ms);

}  // namespace longhaul
