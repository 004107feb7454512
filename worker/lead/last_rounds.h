// What a lead does between the end of its last rank and the end of its job: the controller's next round, for often
// nobody else comes to move the run on. All nodes stand idle meanwhile, so it may cost no more than a little
// (contracts/records/held_allocation.h). What is left then is left to the small job that waits behind this one, where
// there is one; where there is none, all nodes but one are given back before anything longer is waited for.
#pragma once

#include <cstdint>
#include <string>

#include "base/process/log.h"
#include "base/system/clock.h"
#include "contracts/records/attempt.h"
#include "contracts/records/record.h"
#include "worker/lead/next_round.h"

namespace longhaul {

// What a job holds, and since when for nothing.
struct HeldNodes {
  std::string scheduler_job;  // "": nobody can be asked to take nodes back
  int nodes = 1;
  std::int64_t since_ns = 0;  // the end of its last rank; 0: there was none
  std::string node = {};      // that this process runs on, by its name in the scheduler; "": not known
};

// What it has cost so far, and how long it may go on. Pure.
class HeldCost {
 public:
  HeldCost(int nodes, int gpus_per_node, std::int64_t since_ns);
  void gave_back(int nodes_left, std::int64_t now_ns);
  int gpus() const { return gpus_; }  // held now; a node without GPUs counts as one
  int nodes() const { return nodes_; }
  double gpu_minutes(std::int64_t now_ns) const;
  double held_s(std::int64_t now_ns) const { return static_cast<double>(now_ns - since_ns_) * 1e-9; }
  // `followed`: a small job waits behind this one. Where nodes were given back, there is a minute for one round at
  // least, whatever was spent before.
  std::int64_t left_ms(bool followed, std::int64_t now_ns) const;

 private:
  int nodes_, gpus_per_node_, gpus_;
  std::int64_t since_ns_, counted_ns_;  // the cost up to counted_ns_ is in spent_gpu_minutes_
  std::int64_t at_least_until_ns_ = 0;
  double spent_gpu_minutes_ = 0;
};

// The event by which Slurm takes back all nodes of a job but one: `node`, or where that is "" its first. The number
// alone is refused by 24.11 and later for jobs that asked for --ntasks-per-node, as ours do.
std::vector<std::string> give_back_arguments(const std::string& job, const std::string& node);

// Makes them, and ends them when it has cost enough; event `allocation_held` says what it was. Slurm's SIGTERM goes to
// every process of a job: a round that it met at its start is begun again; one that the machine refused, or that left
// something open which nobody follows up, is made again, each time after a longer pause. Without a record (`written`
// is false) the round is given what it would say, for to the scheduler this job lives.
void make_last_rounds(const Attempt& attempt, const JobRecord& record, bool written, const HeldNodes& nodes,
                      NextRound& rounds, Clock& clock, Logger& log);

}  // namespace longhaul
