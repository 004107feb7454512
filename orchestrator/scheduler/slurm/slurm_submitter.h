// Submissions to Slurm: one job for every key, whatever answer is lost. A key that may be known is looked for in one
// list of all our jobs, and believed absent only when it is still missing after an unanswered submission has had time
// to appear, counted from Slurm's first answer: while slurmctld is silent nothing appears.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "orchestrator/scheduler/slurm/slurm_access.h"
#include "orchestrator/scheduler/slurm/slurm_job_index.h"

namespace longhaul {

class SlurmSubmitter {
 public:
  SlurmSubmitter(const SlurmAccess& access, SlurmJobIndex& index) : access_(access), index_(index) {}

  // One answer for each, in their order: as Scheduler::submit.
  std::vector<Result<std::string>> submit(const std::vector<JobSpec>& specs);
  bool may_be_under_way() const { return !unanswered_ns_.empty(); }
  int array_tasks_max();
  // Slurm's list; every question for it goes this way, so that its silences are known.
  Result<std::vector<SlurmJob>> all_jobs();

 private:
  using Answers = std::vector<std::optional<Result<std::string>>>;
  void look_for(const std::vector<JobSpec>& specs, Answers& answers);
  std::optional<Result<std::string>> conclude_absent(const JobSpec& spec) const;
  void note_id(const JobSpec& spec, const std::string& id);
  std::int64_t settle_ms_of(const JobSpec& spec) const;
  std::int64_t settled_in_ms(const JobSpec& spec) const;
  bool was_looked_for(const JobSpec& spec) const;
  Error on_its_way(const JobSpec& spec) const;
  void submit_rest(const std::vector<JobSpec>& specs, Answers& answers);
  // Of the specs [begin, end) of `rest`; whether Slurm has fallen silent.
  bool submit_window(const std::vector<JobSpec>& specs, std::span<const std::size_t> window, Answers& answers);
  Result<std::string> submit_without_dependency(const JobSpec& spec, const Error& refusal);
  void check_dependencies(const std::vector<JobSpec>& specs, const std::vector<std::string>& ids);
  void mend_dependency(const JobSpec& spec, const std::string& id, const std::vector<SlurmJob>& jobs);

  const SlurmAccess& access_;
  SlurmJobIndex& index_;
  std::int64_t answers_since_ns_ = -1;                 // Slurm's lists, without a silence since then; -1: silent
  std::map<std::string, std::int64_t> unanswered_ns_;  // key -> when its submission was not answered
  std::map<std::string, std::int64_t> missed_ns_;      // key -> when Slurm's list was last without it
  int array_tasks_max_ = -1;
};

}  // namespace longhaul
