// What of the runs below one folder could be deleted, what they take, and how they grow. Finding changes nothing;
// deleting goes by rename into <run>/.trash, then away, so that a killed one leaves nothing half: the next one goes on.
//
// Never touched: a run that has not ended, one whose served model still runs (or may, on another host), what is pinned,
// and an artifact that such a run, or one that is kept, refers to.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error/result.h"
#include "base/system/clock.h"

namespace longhaul {

struct DiskUse {
  std::int64_t bytes = 0;  // allocated; hard links counted once
  std::int64_t inodes = 0;
  DiskUse& operator+=(const DiskUse& other) {
    bytes += other.bytes, inodes += other.inodes;
    return *this;
  }
};

struct GarbageItem {
  std::string path;   // absolute
  std::string stage;  // id, "" for something of the whole run
  std::string why;    // "staging of an ended attempt"
  DiskUse use;
};

struct RunGrowth {
  double bytes_per_day = 0, inodes_per_day = 0;  // written by checkpoints at the present pace
  std::int64_t kept_bytes = 0;                   // that they hold at most: keep_last times the newest
};

struct RunUse {
  std::string path, name, workflow, state;
  std::int64_t created_ms = 0;
  bool ended = false, pinned = false;
  std::string kept_because;  // "" where its garbage may go
  std::vector<std::string> pinned_stages;
  DiskUse use;
  RunGrowth growth;
  std::vector<GarbageItem> items;
};

struct GarbageReport {
  std::vector<RunUse> runs;        // oldest first
  std::vector<GarbageItem> index;  // dangling entries of the artifact index
  std::vector<std::string> unreadable;
  DiskUse use, garbage;
  std::int64_t free_bytes = 0, free_inodes = 0;  // of the file system
  double bytes_per_day = 0;                      // of all runs: what was made in the last seven days, per day
};

struct GarbageOptions {
  int keep_last = -1;  // runs of one workflow whose artifacts stay; -1: all
};
Result<GarbageReport> find_garbage(const std::string& runs_dir, const GarbageOptions& options, const Clock& clock);

struct Deleted {
  int items = 0;
  DiskUse use;
  std::vector<std::string> left;  // what was not deleted after all, and why
};
// Looks again right before each run: one that was resumed meanwhile keeps everything.
Result<Deleted> delete_garbage(const GarbageReport& report, const std::string& runs_dir, const GarbageOptions& options,
                               const Clock& clock);

// `name`: RUN or RUN/STAGE, as find_run() takes it. Pinning twice is fine.
Status set_pin(const std::string& runs_dir, const std::string& name, bool pinned);

}  // namespace longhaul
