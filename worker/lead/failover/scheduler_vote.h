// The scheduler as a witness where most of a job's nodes are not heard of: of two nodes no majority outlives the loss
// of one, and nobody would lead the other until the wall time is over. A node that Slurm holds to be down it takes out
// of a job that outlives it; such a node has no voice any more, and those that are left decide among themselves.
// Whoever is not on Slurm's list itself has no use for it: it is the one that was cut off.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "base/error/result.h"
#include "base/system/clock.h"

namespace longhaul {

// Whether more than half of `hosts` are heard of; those that are gone count on neither side. Pure.
bool is_majority(const std::vector<std::string>& hosts, const std::set<std::string>& heard,
                 const std::set<std::string>& gone);

// Of `hosts` those that the scheduler does not give to the job any more, by its list. None where `own` is not on it.
std::set<std::string> gone_by_list(const std::vector<std::string>& hosts, const std::string& own,
                                   const std::vector<std::string>& list);

class SchedulerVote {
 public:
  // The nodes that the job has now; an error votes for nobody.
  using Ask = std::function<Result<std::vector<std::string>>()>;
  SchedulerVote(Ask ask, std::string own, const Clock& clock)
      : ask_(std::move(ask)), own_(std::move(own)), clock_(clock) {}

  // Asks at most every five seconds, and again after one where an answer lacks a node that was there before: a node is
  // gone once two answers in a row lack it, for one may be short (a slurmctld that has just started, a list that was
  // cut off). A later answer that has it gives it its voice back. Call it only where there is no majority otherwise.
  const std::set<std::string>& look(const std::vector<std::string>& hosts);
  // Who is heard of is not gone, whatever was said of it.
  void note_heard(const std::set<std::string>& hosts);
  const std::set<std::string>& gone() const { return gone_; }

 private:
  Ask ask_;
  std::string own_;
  const Clock& clock_;
  std::int64_t next_ns_ = 0;
  std::set<std::string> gone_, doubtful_;  // doubtful: by the newest answer alone
};

// squeue, asked about a job; a job of no scheduler has no answer.
SchedulerVote::Ask ask_for_nodes_of(const std::string& job);

}  // namespace longhaul
