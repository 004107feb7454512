// A real Slurm for C++ tests: the test cluster that $LONGHAUL_CLUSTER_STATE names, through either port.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "base/process/process.h"
#include "base/text/text.h"
#include "tests/unit/orchestrator/scheduler/slurm_port_contract.h"

namespace longhaul::testing {

inline std::string cluster_state() {
  const char* state = std::getenv("LONGHAUL_CLUSTER_STATE");
  return state ? state : "";
}

// A sub-command of tests/cluster/cluster.
inline void play(std::vector<std::string> arguments) {
  const char* cluster = std::getenv("LONGHAUL_CLUSTER");
  REQUIRE(cluster);
  arguments.insert(arguments.begin(), cluster);
  arguments.insert(arguments.end(), {"--state", cluster_state()});
  const auto done = run_program(arguments, 60'000);
  REQUIRE(done.ok());
  REQUIRE(done->status.success());
}

inline std::string helper_path() {
  return join_path(parent_path(own_program_path()), "longhaul-slurm");
}

class ClusterRig : public SlurmPortRig {
 public:
  explicit ClusterRig(std::unique_ptr<SlurmPort> port) : port_(std::move(port)) {
    static int rigs = 0;
    scratch_ = format("{}/scratch/ports-{}-{}", cluster_state(), ::getpid(), ++rigs);
    REQUIRE(make_directories(scratch_).ok());
  }
  ~ClusterRig() override {
    const auto jobs = port_->jobs();
    if (jobs.ok())
      for (const SlurmJob& job : *jobs)
        if (job.state == "PENDING" || job.state == "RUNNING") (void)port_->cancel(job.id).ok();
  }
  SlurmPort& port() override { return *port_; }
  Clock& clock() override { return clock_; }
  bool accounting() override {
    const auto conf = read_file(join_path(cluster_state(), "slurm.conf"));
    return conf.ok() && conf->find("accounting_storage/slurmdbd") != std::string::npos;
  }
  SlurmSubmission job(const std::string& comment, std::int64_t ms, int code) override {
    return script(comment, format("sleep {}; exit {}", static_cast<double>(ms) / 1000, code));
  }
  SlurmSubmission script(const std::string& comment, const std::string& text) {
    SlurmSubmission submission;
    submission.script = format("{}/job-{}.sbatch", scratch_, ++scripts_);
    const std::string lines = format("#!/bin/bash\n#SBATCH --job-name=port --output={}/%j.out\n{}\n", scratch_, text);
    REQUIRE(write_file_atomic(submission.script, lines).ok());
    submission.options = {{"comment", comment}};
    return submission;
  }
  std::string file(const std::string& name) const { return join_path(scratch_, name); }

 private:
  SystemClock clock_;
  std::unique_ptr<SlurmPort> port_;
  std::string scratch_;
  int scripts_ = 0;
};

}  // namespace longhaul::testing
