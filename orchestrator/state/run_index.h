// longhaul.db: an SQLite index of a run's logs, for queries and reports. Never the truth: it is rebuilt from the logs
// whenever it is missing, damaged, of another version, or does not continue where the logs are; losing it costs
// nothing.
#pragma once

#include <string>
#include <vector>

#include "orchestrator/state/run_folder.h"

namespace longhaul {

std::string run_index_path(const std::string& run_dir);

// Brings the index to the ledger's position. `news` are the ledger's last facts; if the index does not stand just
// before them, it is rebuilt from the logs. One transaction.
Status update_run_index(const std::string& run_dir, const FrozenRun& frozen, const RunLedger& ledger,
                        const std::vector<Fact>& news);

// Throws the index away and makes it again from the logs.
Status rebuild_run_index(const std::string& run_dir);

struct IndexedStage {
  std::string id, state, cause, artifact;
  int attempts = 0;
  double seconds = 0;  // of the newest attempt, 0 while it runs
};
// Stages as the index has them, in plan order. not_found, corrupt: rebuild first.
Result<std::vector<IndexedStage>> indexed_stages(const std::string& run_dir);
// How many facts of one kind the index holds.
Result<std::int64_t> indexed_facts(const std::string& run_dir, const std::string& kind);

}  // namespace longhaul
