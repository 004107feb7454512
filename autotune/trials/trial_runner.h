// Whatever runs trials: jobs of a cluster, processes of this machine, or a script of a test. All pass one contract
// suite (tests/unit/orchestrator/controller/trial_runner_contract.h):
//   - submit is idempotent by name: a trial that is known is not run a second time, whoever submitted it first, in this
//     process or in one that was killed;
//   - poll reports all trials that were ever submitted, in the order of their submission; the result of one that is
//   over
//     does not change any more;
//   - stop of a trial that waits ends it without results, of a running one keeps the results that it has, of one that
//   is
//     over does nothing; of one that nobody submitted it is ErrorCode::not_found.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "autotune/trials/trial.h"
#include "base/error/result.h"

namespace longhaul {

class TrialRunner {
 public:
  virtual ~TrialRunner() = default;
  virtual Status submit(std::span<const Trial> trials) = 0;
  virtual Result<std::vector<TrialResult>> poll() = 0;
  virtual Status stop(const std::string& name) = 0;
};

}  // namespace longhaul
