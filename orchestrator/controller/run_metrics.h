// The metrics of a run as a file that is always whole: metrics.prom in the run's folder, and where the site has a
// folder for node_exporter's textfile collector (metrics_folder) there as well. Nothing here ever stops a run: problems
// are logged, each once.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "base/process/log.h"
#include "base/system/clock.h"
#include "orchestrator/state/run_folder.h"
#include "orchestrator/state/run_ledger.h"

namespace longhaul {

inline constexpr const char* run_metrics_file = "metrics.prom";

class RunMetrics {
 public:
  RunMetrics(const std::string& run_dir, Clock& clock, Logger& log);

  // At the end of a round. Writes at the first, at most every 30 s, and once when the run has ended.
  void look(const FrozenRun& frozen, const RunLedger& ledger);

 private:
  void write(const FrozenRun& frozen, const RunLedger& ledger);
  void write_to(const std::string& path, const std::string& text);

  std::string run_dir_;
  std::string site_folder_;  // "": the site has none
  Clock& clock_;
  Logger& log_;
  std::int64_t next_ns_ = 0;
  bool wrote_end_ = false;
  std::string last_problem_;           // of reading
  std::set<std::string> not_written_;  // paths, reported once
};

}  // namespace longhaul
