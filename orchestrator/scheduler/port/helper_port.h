// SlurmPort over the helper program longhaul-slurm, which links libslurm: JSON lines over one socket, several requests
// under way. The helper is started when it is first needed, ended when it hangs, started again when it has died, and
// dies with us. A submission whose answer was lost is `unavailable` and never repeated from here. Not thread-safe.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/value/value.h"
#include "orchestrator/scheduler/port/helper_process.h"
#include "orchestrator/scheduler/port/slurm_commands.h"
#include "orchestrator/scheduler/port/slurm_port.h"
#include "orchestrator/site/submission_times.h"

namespace longhaul {

class HelperPort final : public SlurmPort {
 public:
  struct Options {
    std::int64_t deadline_ms =
        submission_deadline_ms;                        // between two answers; libslurm itself gives up after about 10 s
    int window = 256;                                  // submissions under way
    std::map<std::string, std::string> programs = {};  // paths of sacct, which is asked for accounting
    std::string cluster = {};                          // of several the one that is asked; "": slurm.conf's
    std::vector<std::string> environment = {};         // of the jobs; empty: that of this process
  };
  explicit HelperPort(std::string program) : HelperPort(std::move(program), Options()) {}
  HelperPort(std::string program, Options options);

  // Starts the helper if need be. unsupported: it was built for another libslurm.
  Status start();
  pid_t helper_pid() const { return helper_.pid(); }  // -1: none runs

  std::string description() const override;
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
  using RowSink = std::function<void(const Value&)>;

  // One request and its answer. A question (nothing changes by it) is asked again once if the helper died.
  Result<Value> request(Value question, bool is_question, const RowSink& row);
  Status command(Value order);
  template <typename Row>
  Result<std::vector<Row>> read_rows(Value question, Row (*row_of)(const Value&));
  bool submit_part(const std::vector<SlurmSubmission>& submissions, std::size_t begin, std::size_t end,
                   std::vector<Result<std::string>>& ids);

  HelperProcess helper_;
  Options options_;
  SkippedLine skipped_;
  std::int64_t next_id_ = 1, next_window_ = 1;
  std::string library_;  // version; "" until it said so
};

}  // namespace longhaul
