// Room orchestrator/scheduler
// Where jobs run, as a controller sees it, and the scheduler of this machine.
// scheduler.h is the contract (submit, snapshot, cancel, release); local_scheduler.h runs jobs without Slurm.
// attempt_traces.h reads what leads have left in an attempt's folder. Slurm is in the rooms below.
// The contract may not know Slurm: slurm/ implements it.
//
// Where jobs run, as the controller sees it. All implementations pass one contract suite
// (tests/unit/orchestrator/scheduler/slurm/scheduler_contract_test.cc):
//   - submit is idempotent by key: a key that is known gives the same id and no second job, whoever submitted it first,
//     in this process or in one that was killed, and also when the answer to the first submission was lost;
//   - snapshot answers for all our jobs in one question, however many there are; an ended or lost job never changes
//     again; a running one may be queued again by the scheduler, and `restarts` has grown then;
//   - "not found" is not "failed": a job that the scheduler has forgotten is known by its record, by accounting, or
//   lost
//     after a while, never at once;
//   - cancel of a queued job ends it without ever starting; of a running one asks its lead; of an ended one does
//     nothing.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/error/result.h"
#include "contracts/records/record.h"

namespace longhaul {

// One submission: one job, or one array of jobs whose tasks differ in nothing but their attempt.
struct JobSpec {
  std::string key;          // unique among all submissions; [A-Za-z0-9._-]
  std::string attempt_dir;  // holds attempt.toml; of an array: the folder with tasks.txt, one attempt folder per line
  std::string worker;       // path of longhaul-worker
  int slots = 1;            // CPU slots: ranks * threads (local scheduler)
  // An earlier submission with this key may have happened: look for it first. False only for a key that was made in
  // this very round.
  bool maybe_known = true;
  // ... and be under way: whoever made its intent, or acted upon it since, may still be at it, for he is on another
  // host or his process lives. False: he is this process, or is known to have ended.
  bool in_flight = false;
  std::int64_t overtaken_ms = 0;  // for how long, when this process began, nobody else had been allowed to begin anew
  // Cancelled before anybody knew whether it was submitted: its id if it was. A scheduler whose queue others may still
  // be filling looks for it and, once it is sure that it is not there, refuses it (invalid_input); another may take it,
  // to be cancelled.
  bool withdrawn = false;
  // Slurm. The script's own #SBATCH lines ask for everything but what differs from submission to submission.
  std::string script;            // path of job.sbatch
  std::string after;             // id of a job that has to end before this one starts, however it ends; "" for none
  std::vector<int> array_tasks;  // empty: no array. Otherwise the indices (lines of tasks.txt, from 0)
  int array_throttle = 0;        // tasks that run at the same time; 0: no limit
  // By which the job is also known where a site changes comments (slurm_identity.h). "": as the script says.
  std::string name = {};
  std::string work_dir = {};
  std::int64_t wanted_ms = 0;  // when it was decided; 0: not known
};
// The key of one task of an array.
std::string array_task_key(const std::string& key, int task);  // "<key>+<task>"

enum class JobState { queued, running, ended, lost };
const char* to_string(JobState state);

// What the scheduler itself says about a job's end; `none` where it has nothing to say (the local one).
enum class SchedulerEnd {
  none,
  completed,
  failed,
  cancelled,
  time_limit,
  node_fail,
  boot_fail,
  preempted,
  out_of_memory,
  launch_failed,
  deadline,
  forgotten,          // it no longer knows the job
  cancelled_by_site,  // by another user than its own: an administrator, or the scheduler itself
};
const char* to_string(SchedulerEnd end);

struct JobInfo {
  std::string id;   // "1234", "1234_7" for the task of an array
  std::string key;  // of the submission; of the task for arrays (array_task_key)
  JobState state = JobState::queued;
  std::int64_t started_ms = 0;      // of the lead's claim; 0: not yet
  std::optional<JobRecord> record;  // ended: the lead's own
  std::string cause;                // lost: what is known about it
  SchedulerEnd end = SchedulerEnd::none;
  std::string reason;     // queued: why it waits, as the scheduler gives it ("Resources")
  bool held = false;      // queued, and never to start by itself ("launch failed requeued held")
  std::string advice;     // queued, and not to start by itself for a reason that a person should know; "" otherwise
  bool given_up = false;  // queued, and the scheduler has tried it often enough: only another job may start
  int restarts = 0;       // how often the scheduler queued it again
  std::string nodes;      // that it runs or ran on, in the scheduler's notation ("n[1-2]")
  std::string lost_node;  // node_fail: the one that was lost; "" if that is not known, or more were
};

// A host of the scheduler.
struct HostSeen {
  std::string name;
  bool usable = true;                             // given to jobs now, or when others have ended; not: down, drained
  std::vector<std::string> partitions, features;  // partitions: also "", where jobs go that name none
};

// A job that the controller waits for.
struct OpenJob {
  std::string key;          // of the task for arrays
  std::string id;           // "" until its submission was answered
  std::string attempt_dir;  // where its record will be
  int restarts = 0;         // as far as we know: the scheduler may have queued it again since
  // Of its submission, by which it is also known (slurm_identity.h): the script's argument and work folder, and when it
  // was decided and known to be submitted. "", 0: not known.
  std::string folder = {}, work_dir = {};
  std::int64_t wanted_ms = 0, answered_ms = 0;
};

// Something about the scheduler that people should know, once for each run.
struct SchedulerNotice {
  std::string id;    // "comment_changed"
  std::string text;  // one or two sentences
};

class Scheduler {
 public:
  virtual ~Scheduler() = default;
  // Asked right before jobs are handed over, however long the questions before that took: an error (conflict) is the
  // answer to all that are left. Without it, a caller that stood still is a second one when it goes on.
  using MayAct = std::function<Status()>;
  void ask_before_acting(MayAct may_act) { may_act_ = std::move(may_act); }
  // One answer per spec, in order: the job's id (of an array: without the task). Errors: invalid_input (it will never
  // have it: nothing to try again), io, not_found (no such worker), unavailable (try again later: the controller of the
  // scheduler does not answer, or it refuses the job for now: names/refusals.h says which).
  virtual std::vector<Result<std::string>> submit(const std::vector<JobSpec>& specs) = 0;
  // All jobs submitted through this folder or account that the scheduler still knows, and all of `open` that it does
  // not know any more; oldest first. unavailable: it does not answer; nothing is known then.
  virtual Result<std::vector<JobInfo>> snapshot(const std::vector<OpenJob>& open) = 0;
  // Ok also when it has ended meanwhile.
  virtual Status cancel(const std::string& id) = 0;
  // Lets a held job start. unsupported where no job is ever held.
  virtual Status release(const std::string& id) = 0;
  // Of a job that waits: these hosts, and no others, are not to be used any more. unsupported where jobs exclude none.
  virtual Status exclude_only(const std::string& id, const std::vector<std::string>& hosts);
  // Every host there is. Empty where that is not known; unavailable: the scheduler does not answer.
  virtual Result<std::vector<HostSeen>> hosts() { return std::vector<HostSeen>(); }
  // Whether a submission that this object has handed over was not answered, and may still come through.
  virtual bool may_be_under_way() const { return false; }
  // All that were found since the scheduler was opened.
  virtual std::vector<SchedulerNotice> notices() const { return {}; }
  // Politeness: at least this long between two snapshots while nothing has rung. 0: ask as often as you like.
  virtual std::int64_t poll_interval_ms() const { return 0; }
  // The most tasks that one array may have; 0: there are no arrays.
  virtual int array_tasks_max() const { return 0; }

  Result<std::string> submit_one(const JobSpec& spec) { return submit({spec}).front(); }

 protected:
  Status may_act() const { return may_act_ ? may_act_() : Status(); }
  bool acts() const { return may_act_ != nullptr; }  // for a controller, and not for somebody who looks

 private:
  MayAct may_act_;
};

}  // namespace longhaul
