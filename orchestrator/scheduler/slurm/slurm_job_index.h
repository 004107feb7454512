// Which jobs of Slurm's list are which of our submissions: by their marks (slurm_identity.h), by the numbers that were
// answered; of two with one key the one that is the attempt's. What a site does to our jobs on the way is noticed here.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "orchestrator/scheduler/slurm/slurm_access.h"
#include "orchestrator/scheduler/slurm/slurm_identity.h"

namespace longhaul {

std::string submission_key_of(const std::string& key);  // "a" of the task "a+3"

class SlurmJobIndex {
 public:
  explicit SlurmJobIndex(const SlurmAccess& access) : access_(access) {}

  // A submission that is waited for or made.
  void know(const SlurmIdentity& identity) { identities_.add(identity); }
  void know(const OpenJob& open);
  // Slurm has answered a submission of this process with `id`.
  void note_id(const JobSpec& spec, const std::string& id);
  const std::string* id_of(const std::string& key) const;  // as noted; nullptr: none
  // "" of a job that is nobody's submission.
  std::string key_of(const SlurmJob& job) const;
  const SlurmIdentity* identity_of(const SlurmJob& job) const { return identities_.find(job); }
  const SlurmIdentity* answered(const std::string& id) const;  // the submission of that number, or of its array

  // One job for each key, of tasks each; valid as long as `jobs`. Cancels waiting jobs of a key whose attempt another
  // one has claimed.
  struct Seen {
    const SlurmJob* job = nullptr;
    std::string id;  // "1234_7" for tasks
  };
  using SeenByKey = std::map<std::string, Seen>;
  using OpenByKey = std::map<std::string, const OpenJob*>;
  SeenByKey index(const std::vector<SlurmJob>& jobs, const OpenByKey& open);
  // Of the list that was indexed last: which open jobs' numbers are other jobs'.
  void note_others(const std::vector<OpenJob>& open);

  // Whether the job of this number is the one that was submitted. not_found: slurmctld knows no such job.
  Result<bool> is_ours(const std::string& id);
  bool is_anothers(const std::string& id) const { return others_.contains(id); }
  // Other live jobs of the same key.
  std::vector<std::string> copies_of(const std::string& id) const;
  const std::vector<SchedulerNotice>& notices() const { return notices_; }

 private:
  void notice(const std::string& id, const std::string& event, const std::string& text);
  void notice_changes(const SlurmJob& job, const SlurmIdentity& identity);
  bool is_preferred(const Seen& one, const Seen& other, const std::string& key, const std::string& claimed_by) const;
  void note_copies(const std::vector<Seen>& candidates);
  void cancel_others(const std::string& key, const std::vector<Seen>& candidates, const Seen& best);

  const SlurmAccess& access_;
  SlurmIdentities identities_;
  std::map<std::string, std::string> known_;                // key -> id, of submissions of this process
  std::map<std::string, std::string> owners_;               // Slurm's last list: number of a submission -> its key
  std::map<std::string, std::vector<std::string>> copies_;  // id -> other live jobs of the same key
  std::set<std::string> duplicates_;                        // ids, cancelled for another job of the same key
  std::set<std::string> others_;                            // ids of open jobs that are another job's in Slurm's list
  std::vector<SchedulerNotice> notices_;
};

// As it is known from outside this process.
SlurmIdentity identity_of(const OpenJob& open);

}  // namespace longhaul
