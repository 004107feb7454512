// Notices that the ranks of a training have published a milestone. A shared file system is listed at most once a
// second.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/system/clock.h"
#include "contracts/records/attempt.h"
#include "contracts/tasks/task.h"

namespace longhaul {

class MilestoneWatch {
 public:
  MilestoneWatch(const Attempt& attempt, const Task& task, const Clock& clock);

  // Whether more are there than at the last look. Those of earlier jobs are news at the first: the one that published
  // them may have died before anybody was notified.
  bool look();

 private:
  const Clock& clock_;
  std::string folder_;  // "": the stage publishes none
  std::size_t known_ = 0;
  std::int64_t next_look_ns_ = 0;
};

}  // namespace longhaul
