// Answers that are programs in Python, judged by the tests of their rows (reward.kind = "tests"): 1 where the program
// and the tests behind it come to their end without an error, else 0. They run apart from the host, within the limits
// that HumanEval's have (engine/tasks/answers/program_tests.h).
#pragma once

#include <functional>
#include <string>

#include "engine/align/reward.h"
#include "engine/tasks/answers/program_tests.h"

namespace longhaul {

// The code of an answer: what stands in its first block between lines that begin with ```, to the end where the block
// has none, or the whole answer where there is no block.
std::string program_of_answer(const std::string& answer);

class ProgramReward final : public RewardBackend {
 public:
  // `together`: so many programs run at a time. `between` is called by the calling thread now and then.
  ProgramReward(ProgramTests tests, int together, std::function<void()> between)
      : tests_(std::move(tests)), together_(together), between_(std::move(between)) {}
  // A row's answer is the text of its tests; one that is no text is the problem of its answer. Where programs can no
  // longer be run apart, that is the problem of all.
  std::vector<Reward> judge(std::span<const RewardQuestion> questions) const override;

 private:
  ProgramTests tests_;
  int together_;
  std::function<void()> between_;
};

}  // namespace longhaul
