// Ranks that were killed and do not go away: how long is waited for them, and which of their nodes are not used again.
// Pure: what is seen and the time come from outside.
//
// SIGKILL does not reach a process that the kernel has blocked (state D: a file system that does not answer), and one
// that gives back hundreds of GiB of pinned memory and its GPUs' contexts takes its time. So a node is left only when
// its ranks alone are still there after `leave_after_ms`. Where one of them is blocked, or ranks of more than a few
// nodes are still there at once, they have a cause in common that is no node's: that is waited for, and the user is
// warned. What Slurm makes of such nodes is its own affair (UnkillableStepTimeout drains them).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace longhaul {

struct HostTeardown {
  std::string host;
  int alive = 0;         // of its ranks, as far as is known
  bool blocked = false;  // one of them is in uninterruptible sleep
};

struct TeardownOptions {
  std::int64_t leave_after_ms = 60'000;  // since they were killed
  std::int64_t patience_ms = 1'800'000;  // with what is no node's fault; then nodes are left, and none is accused
  double few_share = 0.02;               // of the launch's nodes: so many, and at least one, may have a cause each
};

struct TeardownView {
  bool over = false;               // nobody is waited for any more
  std::vector<std::string> leave;  // of use when it is over
  bool accused = true;             // false: those that are left have done nothing
  std::string waits_for;           // what is waited for beyond `leave_after_ms`, one sentence; "": nothing yet
};
// `killed_ms`: how long ago they were killed. `hosts`: of the launch.
TeardownView judge_teardown(std::int64_t killed_ms, const std::vector<HostTeardown>& left, int hosts,
                            const TeardownOptions& options = {});

}  // namespace longhaul
