// SlurmPort over Slurm's commands: works at every site, whatever its release. squeue is asked in a text format of our
// own: its JSON costs thirty times as much. Not thread-safe.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "orchestrator/scheduler/port/slurm_commands.h"
#include "orchestrator/scheduler/port/slurm_port.h"
#include "orchestrator/site/submission_times.h"

namespace longhaul {

// The number that sbatch --parsable answered: the last line that is not blank, up to a ';' (behind it stands the
// cluster). Wrappers of sites print banners before it. "": there is none.
std::string submitted_job_id(const std::string& answer);

class CliPort final : public SlurmPort {
 public:
  // `cluster`: of several the one that is asked; "": the one that the commands ask by themselves. `environment`:
  // entries NAME=value that submissions are made with; empty: that of this process.
  explicit CliPort(std::int64_t deadline_ms = submission_deadline_ms, ProgramPaths programs = {},
                   std::string cluster = {}, std::vector<std::string> environment = {})
      : deadline_ms_(deadline_ms),
        programs_(std::move(programs)),
        cluster_(std::move(cluster)),
        environment_(std::move(environment)) {}
  // "22.05.8", of sbatch. not_found: there is none on PATH.
  static Result<std::string> installed_version(const ProgramPaths& programs = {});

  std::string description() const override;
  std::size_t submit_window() const override { return 1; }  // each may be under way for the whole deadline
  std::vector<Result<std::string>> submit(const std::vector<SlurmSubmission>& submissions) override;
  Result<std::vector<SlurmJob>> jobs() override;
  Result<std::vector<SlurmJob>> job(const std::string& id) override;
  Result<std::vector<SlurmJob>> accounted(const std::vector<std::string>& ids) override;
  Status signal(const std::string& id, int signal_number, bool batch_only) override;
  Status cancel(const std::string& id) override;
  Status requeue(const std::string& id, bool hold) override;
  Status release(const std::string& id) override;
  Status update(const std::string& id, const std::vector<std::pair<std::string, std::string>>& changes) override;
  Result<SlurmWillRun> will_run(const SlurmSubmission& submission) override;
  Result<std::vector<SlurmNode>> nodes() override;
  Result<std::vector<SlurmPartition>> partitions() override;
  Result<std::vector<SlurmReservation>> reservations() override;
  Result<SlurmConfiguration> configuration() override;
  std::string skipped() const override { return skipped_.text(); }

 private:
  Result<RunOutput> query(std::vector<std::string> argv) const;
  // The output of a query that succeeded.
  Result<std::string> ask(const std::string& what, std::vector<std::string> argv) const;
  Result<std::vector<SlurmJob>> read_queue(const std::string& what, const std::vector<std::string>& which) const;

  std::int64_t deadline_ms_;
  ProgramPaths programs_;
  std::string cluster_;
  std::vector<std::string> environment_;
  UniqueSeparators separators_;
  mutable SkippedLine skipped_;
  mutable std::string version_;
};

}  // namespace longhaul
