// What is remembered of open jobs between two looks at Slurm's list, and what a look concludes of them. A job's end is
// known from its own record, from Slurm, from accounting, in this order; a record may reach us later than Slurm's
// answer.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "orchestrator/scheduler/slurm/slurm_access.h"

namespace longhaul {

// What is remembered of a job between snapshots.
struct JobMemory {
  JobState last_state = JobState::queued;
  std::int64_t last_started_ms = 0;
  int last_restarts = 0;
  std::string last_nodes;
  std::int64_t missing_since_ns = -1;  // Slurm says it ended or is silent, and there is no record
  bool seen_alive = false;
  std::int64_t claim_ms = 0;  // of the lead's claim, read once per start
  int claim_restarts = -1;
  std::optional<JobInfo> final;  // ended and lost never change again

  // Where it runs, and how often it was queued again. A job that lost one of its nodes is shown with those that are
  // left.
  void note_nodes(const SlurmJob& job);
};

// One look.
struct SlurmRound {
  std::vector<std::pair<std::int64_t, JobInfo>> infos;  // with the time of submission
  std::vector<OpenJob> missing;                         // unknown to Slurm, without a record
  std::set<std::string> submissions;                    // that Slurm's list has something of
  std::set<std::string> anothers;                       // keys of those whose number is another job's
  int single_questions = 0;
};

// The id of an open job as far as it is known: that its lead wrote down, or "gone-<key>".
std::string known_id(const OpenJob& open);

class JobLedger {
 public:
  explicit JobLedger(const SlurmAccess& access) : access_(access) {}

  JobMemory& of(const std::string& key) { return memory_[key]; }
  void forget_all_but(const std::map<std::string, const OpenJob*>& open);

  // Whether its record has been waited for as long as records need: from the first time that this is asked on.
  bool waited_long_enough(const OpenJob& open);
  bool is_unread(const std::string& key) const { return unread_.contains(key); }
  std::string no_record(const std::string& key) const;  // "; its lead left no record", or why it cannot be read

  // Ends it by its record, where that can be read.
  bool take_record(const OpenJob& open, const std::string& id, int restarts, SchedulerEnd end, SlurmRound& round);
  // Its state as last known, while its record is awaited.
  void await(const OpenJob& open, const std::string& id, const std::string& why, SlurmRound& round);
  // What is reported of it from now on.
  void conclude(JobInfo info, SlurmRound& round);
  // Of jobs that ended for want of a node: which one. Slurm knows it now, and not for long.
  void name_lost_nodes(SlurmRound& round);

 private:
  const SlurmAccess& access_;
  std::map<std::string, JobMemory> memory_;    // by key (of tasks); only what is open
  std::map<std::string, std::string> unread_;  // key -> why its record cannot be read, though it may be there
};

}  // namespace longhaul
