// Room orchestrator/scheduler/slurm
// The Scheduler over a Slurm cluster: one job for every key, whatever answer of Slurm is lost.
// slurm_scheduler.h is the class, with a source for each question: cancellation, dependencies, duplicates.
// slurm_identity.h says by what a job is known as ours; site_probe.h compares a cluster with its site file.
// It does not know the run's log: keys and open jobs are handed to it.
//
// Jobs of a Slurm cluster. Slurm's memory is short and its answers may be lost, so nothing is concluded from silence:
//   - a job carries its submission's key, and is known by other marks where the site takes that away
//     (slurm_identity.h); a key that may be known is looked for in one snapshot of all our jobs before it is submitted,
//     and believed absent only when it is still missing after an unanswered submission has had time to appear, counted
//     from Slurm's first answer: while slurmctld is silent nothing appears;
//   - a job's end is known from its own record, from Slurm, from accounting, in this order. A record may reach us later
//     than Slurm's word (file systems lag); a job that Slurm has forgotten is lost only after a while;
//   - of two jobs with one key the one whose lead has claimed the attempt is the attempt's; the other one is cancelled
//     while it waits, and one that we were told of is given up for it;
//   - a native dependency is read back: Slurm 22.05 silently drops one on a job that it has forgotten.
// The job's script gets the attempt folder as its only argument. Not thread-safe.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/process/log.h"
#include "base/system/clock.h"
#include "orchestrator/scheduler/port/slurm_port.h"
#include "orchestrator/scheduler/scheduler.h"
#include "orchestrator/scheduler/slurm/slurm_identity.h"
#include "orchestrator/site/submission_times.h"

namespace longhaul {

struct SlurmSchedulerOptions {
  std::int64_t poll_interval_ms = 30'000;
  std::int64_t settle_ms = 15'000;  // after which a submission that was not answered is visible, or never happened
  std::int64_t in_flight_ms = longhaul::in_flight_ms;  // the same where somebody else may still be at it
  std::int64_t record_grace_ms =
      60'000;            // between Slurm's word, or its silence, and the conclusion that no record comes
  bool comments = true;  // false: the site has no use for comments but its own, and none is given
  // Nobody comes after this look: a cancellation of which accounting does not know yet by whom counts as the user's.
  bool last_look = false;
};

class SlurmScheduler final : public Scheduler {
 public:
  SlurmScheduler(std::unique_ptr<SlurmPort> port, SlurmSchedulerOptions options, Clock& clock, Logger& log);

  // A job that has left its record or claim but that Slurm no longer knows: the id that its lead wrote down, or
  // "gone-<key>".
  std::vector<Result<std::string>> submit(const std::vector<JobSpec>& specs) override;
  // Ended jobs are told only if they are in `open`: their records lie in folders that only the caller knows.
  Result<std::vector<JobInfo>> snapshot(const std::vector<OpenJob>& open) override;
  Status cancel(const std::string& id) override;
  Status release(const std::string& id) override;
  Status exclude_only(const std::string& id, const std::vector<std::string>& hosts) override;
  Result<std::vector<HostSeen>> hosts() override;
  bool may_be_under_way() const override { return !unanswered_ns_.empty(); }
  std::vector<SchedulerNotice> notices() const override { return notices_; }
  std::int64_t poll_interval_ms() const override { return options_.poll_interval_ms; }
  int array_tasks_max() const override;

  SlurmPort& port() { return *port_; }

 private:
  // What is remembered of a job between snapshots.
  struct Memory {
    JobState last_state = JobState::queued;
    std::int64_t last_started_ms = 0;
    int last_restarts = 0;
    std::string last_nodes;
    std::int64_t missing_since_ns = -1;  // Slurm says it ended or is silent, and there is no record
    bool seen_alive = false;
    std::int64_t claim_ms = 0;  // of the lead's claim, read once per start
    int claim_restarts = -1;
    std::optional<JobInfo> final;  // ended and lost never change again
  };
  struct Seen {
    const SlurmJob* job = nullptr;
    std::string id;  // "1234_7" for tasks
  };
  // A cancellation that Slurm refuses (another user's job) is asked for again at the pace of snapshots.
  struct RefusedCancel {
    Error why;
    std::int64_t again_ns = 0;
  };
  using SeenByKey = std::map<std::string, Seen>;
  struct Round;
  enum class Known { alive, forgotten, anothers, not_said };

  void look_for(const std::vector<JobSpec>& specs, std::vector<std::optional<Result<std::string>>>& answers);
  std::optional<Result<std::string>> conclude_absent(const JobSpec& spec) const;
  void note_id(const JobSpec& spec, const std::string& id);
  void know(const OpenJob& open);
  std::string key_of(const SlurmJob& job) const;
  void notice(const std::string& id, const std::string& event, const std::string& text);
  void notice_changes(const SlurmJob& job, const SlurmIdentity& identity);
  std::int64_t settle_ms_of(const JobSpec& spec) const;
  std::int64_t settled_in_ms(const JobSpec& spec) const;
  bool was_looked_for(const JobSpec& spec) const;
  Error on_its_way(const JobSpec& spec) const;
  Result<std::vector<SlurmJob>> all_jobs();
  void submit_rest(const std::vector<JobSpec>& specs, std::vector<std::optional<Result<std::string>>>& answers);
  Result<std::string> submit_without_dependency(const JobSpec& spec, const Error& refusal);
  void check_dependencies(const std::vector<JobSpec>& specs, const std::vector<std::string>& ids);
  void mend_dependency(const JobSpec& spec, const std::string& id, const std::vector<SlurmJob>& jobs);

  using OpenByKey = std::map<std::string, const OpenJob*>;
  SeenByKey index(const std::vector<SlurmJob>& jobs, const OpenByKey& open);
  bool is_preferred(const Seen& one, const Seen& other, const std::string& key, const std::string& claimed_by) const;
  void note_copies(const std::vector<Seen>& candidates);
  void cancel_others(const std::string& key, const std::vector<Seen>& candidates, const Seen& best);
  JobInfo live_info(const std::string& key, const Seen& seen, const OpenJob* open);
  void look_at_ended(const OpenJob& open, const Seen& seen, Round& round);
  void look_at_missing(const OpenJob& open, Round& round);
  void settle_missing(Round& round);
  bool take_record(const OpenJob& open, const std::string& id, int restarts, SchedulerEnd end, Round& round);
  Known ask_about(const OpenJob& open, Round& round);
  bool slurm_waited(const OpenJob& open, const Round& round);
  std::string no_record(const std::string& key) const;
  bool is_our_cancellation(const OpenJob& open, const std::string& id) const;
  std::optional<bool> cancelled_by_site(const OpenJob& open, const std::string& id);
  SchedulerEnd cancelled_alive(const OpenJob& open, const std::string& id);
  std::optional<SchedulerEnd> end_of(const OpenJob& open, const Seen& seen);
  bool is_waited_for_long_enough(const OpenJob& open);
  void await(const OpenJob& open, const std::string& id, const std::string& why, Round& round);
  void conclude(JobInfo info, Round& round);
  static void note_nodes(Memory& memory, const SlurmJob& job);
  void name_lost_nodes(Round& round);
  void note_others(const std::vector<OpenJob>& open);
  Result<bool> is_ours(const std::string& id);
  Status cancel_in_its_place(const std::string& id);
  void cancel_copies(const std::string& id);

  std::unique_ptr<SlurmPort> port_;
  SlurmSchedulerOptions options_;
  Clock& clock_;
  Logger& log_;
  std::int64_t answers_since_ns_ = -1;                      // Slurm's lists, without a silence since then; -1: silent
  std::map<std::string, std::int64_t> unanswered_ns_;       // key -> when its submission was not answered
  std::map<std::string, std::int64_t> missed_ns_;           // key -> when Slurm's list was last without it
  std::map<std::string, std::string> known_;                // key -> id, of submissions of this process
  SlurmIdentities identities_;                              // of those and of all that were waited for
  std::map<std::string, std::string> owners_;               // Slurm's last list: number of a submission -> its key
  std::map<std::string, std::vector<std::string>> copies_;  // id -> other live jobs of the same key
  std::vector<SchedulerNotice> notices_;
  std::set<std::string> cancelled_;                       // ids, by this process
  std::set<std::string> duplicates_;                      // ids, cancelled for another job of the same key
  std::set<std::string> others_;                          // ids of open jobs that are another job's in Slurm's list
  std::map<std::string, RefusedCancel> refused_cancels_;  // by id
  std::map<std::string, std::string> unread_;  // key -> why its record cannot be read, though it may be there
  std::map<std::string, Memory> memory_;       // by key (of tasks); only what is open
  mutable int array_tasks_max_ = -1;
  std::int64_t min_job_age_ms_ = -1;
  int keeps_accounts_ = -1;  // 1: there is accounting to ask; -1: not known
};

bool is_pending(const SlurmJob& job);
bool is_live(const SlurmJob& job);  // it is not known to have ended
SlurmSubmission submission_of(const JobSpec& spec, bool with_dependency, bool with_comment = true);
// "0,1,2,5" -> "0-2,5"
std::string compress_indices(std::vector<int> indices);
// "3-9,12%4", "0-10:2" -> the indices
std::vector<int> expand_indices(const std::string& text);
bool is_key(const std::string& text);  // of a submission: a job with another comment is not ours
// "1234", "1234_7".
bool is_job_id(const std::string& id);
std::int64_t number_of_job(const std::string& id);  // 1234
// The submission's own number, of a job or of a task of its array.
const std::string& submission_id(const SlurmJob& job);
// Whether `id`, of a job, an array or a task, means this one.
bool covers(const SlurmJob& job, const std::string& id);
SchedulerEnd scheduler_end_of(const SlurmJob& job);
// Of accounting's record of a cancelled job: another user than this one did it.
bool is_by_site(const SlurmJob& end);
// Of accounting's records the one that tells how the job `id` ("1234", "1234_7") of this submission ended; nullptr:
// none does. The newest counts, and only once its end is known: slurmdbd hears of a state before the exit code. An id
// may have been given again after a crash of slurmctld: a record with another comment, by which nothing else makes it
// ours, is another job's, and where our comments are stored one that ended without is, too.
const SlurmJob* accounted_end(const std::vector<SlurmJob>& records, const std::string& id,
                              const SlurmIdentity& identity);
// "Slurm says FAILED, exit code 3 on n1"; the witness is Slurm or its accounting.
std::string words_of_end(const SlurmJob& job, const char* witness);

}  // namespace longhaul
