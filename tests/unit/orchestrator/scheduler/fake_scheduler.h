// A scheduler with virtual time and no processes: jobs take the time and end the way that a script says. Passes the
// same contract suite as the real ones (scheduler_contract_test.cc). Faults that it can play: a submission that is
// answered after the caller died (submit, then throw the caller away), refusal, a lost lead.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/system/clock.h"
#include "orchestrator/scheduler/scheduler.h"

namespace longhaul {

class FakeScheduler final : public Scheduler {
 public:
  struct Script {
    std::int64_t duration_ms = 1000;
    std::string outcome = "succeeded";  // or "failed", "lost"
    std::string cause;
  };
  // What a job will do, by its key.
  using Play = std::function<Script(const std::string& key)>;

  FakeScheduler(const Clock& clock, int slots, Play play) : clock_(clock), slots_(slots), play_(std::move(play)) {}

  std::vector<Result<std::string>> submit(const std::vector<JobSpec>& specs) override {
    std::vector<Result<std::string>> ids;
    for (const JobSpec& spec : specs) ids.push_back(enqueue(spec));
    return ids;
  }
  Result<std::string> enqueue(const JobSpec& spec) {
    advance();
    for (const Job& job : jobs_)
      if (job.info.key == spec.key) return job.info.id;
    if (spec.withdrawn) return make_error(ErrorCode::invalid_input, "cancelled before it was submitted");
    Job job;
    job.info.key = spec.key;
    job.info.id = std::to_string(jobs_.size() + 1);
    job.slots = std::min(spec.slots, slots_);
    job.script = play_(spec.key);
    jobs_.push_back(std::move(job));
    ++submissions_[spec.key];
    advance();
    return jobs_.back().info.id;
  }
  Result<std::vector<JobInfo>> snapshot(const std::vector<OpenJob>&) override {
    advance();
    std::vector<JobInfo> infos;
    for (const Job& job : jobs_) infos.push_back(job.info);
    return infos;
  }
  Status cancel(const std::string& id) override {
    advance();
    for (Job& job : jobs_) {
      if (job.info.id != id) continue;
      if (job.info.state == JobState::queued || job.info.state == JobState::running)
        end(job, "cancelled", clock_.wall_ms());
      return {};
    }
    return make_error(ErrorCode::not_found, "no job " + id);
  }
  Status release(const std::string& id) override {
    return make_error(ErrorCode::unsupported, "job " + id + " is not held");
  }
  // How many jobs were ever made for a key: 1, or a promise is broken.
  const std::map<std::string, int>& submissions() const { return submissions_; }
  int starts() const { return starts_; }

 private:
  struct Job {
    JobInfo info;
    Script script;
    int slots = 1;
  };
  static void end(Job& job, const std::string& outcome, std::int64_t at_ms) {
    if (outcome == "lost") {
      job.info.state = JobState::lost;
      job.info.cause = "its lead is gone";
      return;
    }
    job.info.state = JobState::ended;
    JobRecord record;
    record.key = job.info.key;
    record.outcome = outcome;
    record.cause = job.script.cause;
    record.exit_code = outcome == "failed" ? 1 : 0;
    record.started_ms = job.info.started_ms;
    record.ended_ms = at_ms;
    job.info.record = record;
  }
  // Ends what is due and starts what fits, in order of time.
  void advance() {
    for (bool changed = true; changed;) {
      changed = false;
      int used = 0;
      for (Job& job : jobs_) {
        if (job.info.state != JobState::running) continue;
        const std::int64_t due = job.info.started_ms + job.script.duration_ms;
        if (due <= clock_.wall_ms()) {
          end(job, job.script.outcome, due);
          changed = true;
        } else {
          used += job.slots;
        }
      }
      for (Job& job : jobs_) {
        if (job.info.state != JobState::queued) continue;
        if (used + job.slots > slots_) break;
        used += job.slots;
        job.info.state = JobState::running;
        job.info.started_ms = clock_.wall_ms();
        ++starts_;
        changed = true;
      }
    }
  }

  const Clock& clock_;
  int slots_;
  Play play_;
  std::vector<Job> jobs_;
  std::map<std::string, int> submissions_;
  int starts_ = 0;
};

}  // namespace longhaul
