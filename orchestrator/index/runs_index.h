// Room orchestrator/index
// An index of all runs below a folder, in SQLite, for lists and queries.
// runs_index.h keeps it up to date; run_summary.h is what it stores of a run; runs_query.h is a question.
// run_stamp.h sees cheaply whether a run has changed; sqlite.h alone calls SQLite.
// It is a cache and never the truth: orchestrator/decide may not read it, and it knows no controller.
//
// An index of all runs below one folder, in SQLite: for lists of runs and questions about them. Never the truth: a
// cache of the runs' own files that its user keeps for himself, made again wherever it is missing, damaged, of another
// format or not his own, and brought up to date before it answers. A run is read again where its log has changed
// (run_stamp.h); of the others the file system is asked one question each, two where the run has not ended, and one
// more for each of its stages that runs.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "orchestrator/index/run_summary.h"
#include "orchestrator/index/runs_query.h"
#include "orchestrator/index/sqlite.h"

namespace longhaul {

struct RunsIndexOptions {
  std::string folder;    // where indexes are kept, of this user alone; "": nowhere, all is read each time
  bool rebuild = false;  // take no index that is there
  int threads = 16;      // that wait for the file system at the same time
  // Called now and then while many runs are read: how many of them have been.
  std::function<void(std::size_t read, std::size_t of)> progress = {};
};

// What it took to bring an index up to date.
struct RunsIndexWork {
  std::size_t runs = 0;              // that there are
  std::size_t read = 0;              // whose files were read, because they were new or had changed
  std::size_t looks = 0;             // questions to the file system about runs that had not
  std::vector<std::string> remarks;  // for people: what was wrong with an index that was there, and is put right
};

class RunsIndex {
 public:
  // Of the runs below this folder, as they are now. An error only where the folder cannot be listed. A folder that is
  // not there has no runs.
  static Result<RunsIndex> open(const std::string& runs_dir, const RunsIndexOptions& options, std::int64_t now_ms);

  // Rows of what is asked for, the oldest run first, stages in plan order.
  Result<std::vector<RunsRow>> ask(const RunsQuery& query, std::int64_t now_ms);
  const RunsIndexWork& work() const { return work_; }

 private:
  RunsIndex(std::string runs_dir, SqlDatabase database)
      : runs_dir_(std::move(runs_dir)), database_(std::move(database)) {}
  Result<bool> bring_up_to_date(const RunsIndexOptions& options, std::int64_t now_ms);

  std::string runs_dir_;
  SqlDatabase database_;
  RunsIndexWork work_;
};

// The file of the index of this folder of runs.
std::string runs_index_path(const std::string& folder, const std::string& runs_dir);

}  // namespace longhaul
