// A Slurm with virtual time: nodes, queue, arrays, dependencies, a memory that forgets, and scripted faults. Its ports
// pass the same contract suite as those of a real cluster (slurm_port_contract.h). Its jobs behave as leads do: they
// leave claim.json when they start and record.json when they end, in the attempt folder that is their argument.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/system/clock.h"
#include "orchestrator/scheduler/port/slurm_port.h"

namespace longhaul {

class FakeSlurm {
 public:
  struct Play {
    std::int64_t duration_ms = 1000;
    int nodes = 1;
    std::string state = "COMPLETED";  // how it ends
    std::string reason;
    int exit_code = 0;
    bool leaves_claim = true, leaves_record = true;
    std::int64_t record_late_ms = 0;  // seen on the file system this long after its end
  };
  struct Options {
    int nodes = 2;
    std::int64_t min_job_age_ms = 300'000;
    int max_array_size = 1001;
    int live_jobs_max = 0;                      // 0: no limit
    bool refuses_forgotten_dependency = false;  // 23.11 and later; before, it is dropped in silence
    bool accounting = false;
  };

  FakeSlurm(ManualClock& clock, Options options) : clock_(clock), options_(options) {}
  std::unique_ptr<SlurmPort> port();

  // What a job does, by the comment (without one: the name) that it was submitted with and its array task (-1: none).
  std::function<Play(const std::string& comment, int task)> play = [](const std::string&, int) { return Play{}; };

  // Faults.
  std::function<void()> in_flight;    // runs once, while the next submission is on its way
  int answers_to_lose = 0;            // of the next submissions; they are accepted
  std::int64_t appears_after_ms = 0;  // ... and seen only after this long
  std::int64_t down_until_ms = 0;     // wall time; no call is answered before
  bool accounting_down = false;
  long long cancelled_by = 0;         // as accounting has it; -1: it does not say
  bool drop_live_dependency = false;  // of the next submission
  std::function<std::optional<Error>(const SlurmSubmission&)> refuse;
  std::optional<Error> refuse_cancel;
  std::function<void(SlurmJob&)> filter;           // what the site makes of a submission: job_submit.lua, a wrapper
  std::optional<std::string> wrong_answer;         // to the next submission, which is accepted
  std::string skipped;                             // what a wrapper prints beside answers
  bool answers_for_nothing = false;                // ... and which is not
  std::set<std::string> of_other_users;            // numbers of jobs that only job() reports
  std::int64_t clock_off_s = 0;                    // of slurmctld: of all times that it gives
  std::map<std::string, std::string> node_states;  // "n2" -> "DOWN+NOT_RESPONDING"; the others are idle
  // slurmctld crashed before it saved: the job is unknown, wherever it was.
  void lose(const std::string& id);
  // The node under it died; the job is queued again with the same id.
  void fail_node_and_requeue(const std::string& id);
  // slurmctld was killed while it launched the job.
  void fail_launch_and_hold(const std::string& id);
  // The same before it saved the number: the next submission gets it.
  void lose_with_its_number(const std::string& id);
  // `scontrol hold` by its owner; JobHeldAdmin: by an administrator.
  void hold_by_person(const std::string& id, const std::string& reason = "JobHeldUser");
  // Asked to end, and not yet gone from its nodes.
  void begin_to_end(const std::string& id, const std::string& ends_as);

  // Counted by slurmctld itself, by the comment (without one: the name) that was asked for.
  int submissions(const std::string& comment) const;
  // Jobs that wait or run.
  int live() const;
  int starts() const { return starts_; }
  int queries() const { return queries_; }      // jobs(): whole lists
  int questions() const { return questions_; }  // whole lists, single jobs and accounting
  int cancels() const { return cancels_; }      // asked for
  int will_runs() const { return will_runs_; }

 private:
  friend class FakeSlurmPort;
  struct Job {
    SlurmJob shown;
    std::string key;  // as submitted
    int task = -1;
    std::int64_t number = 0;
    int throttle = 0;
    std::string attempt_dir;
    std::string after;
    std::int64_t visible_ms = 0, started_ms = 0, ended_ms = 0;
    std::int64_t record_due_ms = -1;
    bool forgotten = false;
    Play play;
  };
  std::optional<Error> not_answering() const;
  Result<std::string> accept(const SlurmSubmission& submission);
  std::vector<Job*> find(const std::string& id);
  bool is_live(const Job& job) const { return job.shown.state == "PENDING" || job.shown.state == "RUNNING"; }
  bool blocked(const Job& job) const;
  void start(Job& job, std::int64_t at_ms);
  void end(Job& job, const std::string& state, std::int64_t at_ms);
  static std::string id_for_lead(const Job& job);
  void write_claim_of(const Job& job, std::int64_t at_ms);
  void write_record_of(const Job& job);
  void advance();
  void advance_to(std::int64_t at_ms);
  std::vector<SlurmJob> shown_jobs() const;

  ManualClock& clock_;
  Options options_;
  std::vector<std::unique_ptr<Job>> jobs_;
  std::map<std::string, int> submissions_;
  std::int64_t next_number_ = 1;
  int starts_ = 0, queries_ = 0, questions_ = 0, cancels_ = 0, will_runs_ = 0;
};

}  // namespace longhaul
