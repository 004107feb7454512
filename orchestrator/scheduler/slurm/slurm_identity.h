// By what a job of Slurm's is known to be one of our submissions. sbatch is given the submission's key as comment, a
// name that ends in a part of the key, the run as work folder, and the attempt's folder as the script's only argument.
// Submit filters and wrappers of sites rewrite, prefix or clear some of these; any one that names the submission is
// enough, and where all names are gone, the number that sbatch answered together with work folder and submit time.
// Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "orchestrator/scheduler/port/slurm_port.h"

namespace longhaul {

struct SlurmIdentity {
  std::string key;            // of the submission; of an array as a whole
  std::string id = {};        // as sbatch answered; "" where no answer came
  std::string folder = {};    // the script's argument; no two submissions have the same
  std::string work_dir = {};  // absolute; "" where it is not known
  // By our clock: not submitted before `wanted_ms`, and known to be submitted at `answered_ms`. 0: not known.
  std::int64_t wanted_ms = 0, answered_ms = 0;
};

// ".2.8d2f3a11c0de" of the key "pretrain.2.8d2f3a11c0de4711beef": the names of our jobs end with it.
std::string name_tail(const std::string& key);
// "lh-demo-1-pretrain" with the tail of its key; at most 100 characters.
std::string submission_name(const std::string& base, const std::string& key);

enum class KnownBy { nothing, comment, folder, name, id };
KnownBy known_by(const SlurmJob& job, const SlurmIdentity& identity);

// Whether Slurm's submit time lies where our clock says, give or take two minutes. True where either is not known.
bool submitted_then(const SlurmJob& job, const SlurmIdentity& identity);

// A time that Slurm reports of the job, in ms by our clock: where the two clocks differ, counted from the submission.
// 0 stays 0.
std::int64_t our_ms(std::int64_t slurm_s, const SlurmJob& job, const SlurmIdentity* identity);

// All submissions that one process waits for or has made, looked up job by job.
class SlurmIdentities {
 public:
  // What is new of a key that is known completes what was known.
  void add(const SlurmIdentity& identity);
  // The submission that `job` is; nullptr: none of these. Valid as long as this object.
  const SlurmIdentity* find(const SlurmJob& job) const;
  // The submission that was answered with this number; nullptr: none.
  const SlurmIdentity* answered(const std::string& id) const;

 private:
  using ByText = std::map<std::string, const SlurmIdentity*>;
  std::map<std::string, SlurmIdentity> by_key_;
  ByText by_folder_, by_tail_, by_id_;
};

}  // namespace longhaul
