// The budgets of each group of faults, as sequences of ends: "!" marks one after which no further try follows.
#include <doctest/doctest.h>

#include "base/text/text.h"
#include "resiliency/retry_policy.h"
#include "resiliency/taxonomy/fault_table.h"

namespace longhaul {
namespace {

using F = FaultClass;

PastEnd barren(F fault, const std::string& cause = "c") {
  return {fault, cause, false, ""};
}
PastEnd fruitful(F fault, const std::string& cause = "c") {
  return {fault, cause, true, ""};
}

// Plays the ends one after the other: how many of them were followed by another try before the first that was not.
int tries_after(const std::vector<PastEnd>& ends, const RetryBudgets& budgets) {
  for (std::size_t n = 1; n <= ends.size(); ++n)
    if (!decide_retry({ends.begin(), ends.begin() + static_cast<std::ptrdiff_t>(n)}, budgets).again)
      return static_cast<int>(n) - 1;
  return static_cast<int>(ends.size());
}

std::string reason_of(const std::vector<PastEnd>& ends, const RetryBudgets& budgets) {
  return decide_retry(ends, budgets).reason;
}

}  // namespace

TEST_CASE("the classes of whole jobs belong to the groups that pay for them") {
  const std::pair<F, FaultGroup> groups[] = {
      {F::none, FaultGroup::none},
      {F::bad_input, FaultGroup::hopeless},
      {F::time_limit, FaultGroup::hopeless},
      {F::program, FaultGroup::application},
      {F::crash, FaultGroup::application},
      {F::killed, FaultGroup::application},
      {F::interrupted, FaultGroup::application},
      {F::disk_full, FaultGroup::application},
      {F::lost, FaultGroup::application},
      {F::not_started, FaultGroup::application},
      {F::wall_time, FaultGroup::wall_time},
      {F::node_fail, FaultGroup::infrastructure},
      {F::boot_fail, FaultGroup::infrastructure},
      {F::launch_failed, FaultGroup::infrastructure},
      {F::preempted, FaultGroup::preemption},
      {F::out_of_memory, FaultGroup::memory},
      {F::cancelled_there, FaultGroup::none},
      {F::cancelled, FaultGroup::none},
  };
  for (const auto& [fault, group] : groups) {
    CAPTURE(to_string(fault));
    CHECK(group_of(fault) == group);
    CHECK(fault_class_of(to_string(fault)) == fault);  // logs name them
  }
  CHECK(fault_class_of("never heard of") == F::program);
}

TEST_CASE("infrastructure has a budget of its own, which a newer checkpoint fills up again") {
  const RetryBudgets budgets{.application = 0, .infrastructure = 2};
  const PastEnd node = barren(F::node_fail), boot = barren(F::boot_fail), launch = barren(F::launch_failed);
  CHECK(tries_after({node, boot, launch, node}, budgets) == 2);
  CHECK(tries_after({node, node, fruitful(F::node_fail), node, node, node}, budgets) == 4);
  CHECK(reason_of({node}, budgets) == "retry 1 of 2 (infrastructure)");
  CHECK(reason_of({node, node, node}, budgets) == "all 2 retries of infrastructure used");
  CHECK(reason_of({node}, {.infrastructure = 0}) == "no retries of infrastructure allowed");
}

TEST_CASE("the same cause is no reason to stop where the machine is at fault") {
  const std::vector<PastEnd> same(5, barren(F::node_fail));
  CHECK(tries_after(same, {.infrastructure = 9}) == 5);
}

TEST_CASE("groups do not pay for each other") {
  const RetryBudgets budgets{.application = 1, .infrastructure = 1, .preemptions = 1, .resumable = true};
  const PastEnd crash = barren(F::crash), node = barren(F::node_fail), preempted = barren(F::preempted),
                wall = fruitful(F::wall_time);
  CHECK(tries_after({crash, node, preempted, wall}, budgets) == 4);
  CHECK(tries_after({node, preempted, wall, crash, crash}, budgets) == 4);
  CHECK(tries_after({node, crash, node}, budgets) == 2);
  CHECK(tries_after({preempted, node, crash, preempted}, budgets) == 3);
}

TEST_CASE("preemptions are nobody's fault, but without any progress they end, too") {
  const std::vector<PastEnd> many(101, barren(F::preempted));
  CHECK(tries_after(many, {}) == 100);
  std::vector<PastEnd> moving(300, fruitful(F::preempted));
  CHECK(tries_after(moving, {}) == 300);
}

TEST_CASE("a wall time that is over is no fault of what goes on; two without a new checkpoint are") {
  const RetryBudgets goes_on{.application = 0, .infrastructure = 0, .resumable = true};
  const PastEnd new_steps = fruitful(F::wall_time), nothing = barren(F::wall_time);
  CHECK(tries_after(std::vector<PastEnd>(50, new_steps), goes_on) == 50);
  CHECK(tries_after({nothing, nothing}, goes_on) == 1);
  CHECK(tries_after({nothing, new_steps, nothing, new_steps, nothing, nothing}, goes_on) == 5);
  const RetryBudgets patient{.application = 5, .infrastructure = 5, .resumable = true};
  CHECK(tries_after({nothing, barren(F::node_fail), nothing}, patient) == 2);
  CHECK(tries_after({nothing, fruitful(F::node_fail), nothing}, patient) == 3);  // saved by the job in between
  CHECK(tries_after({new_steps}, {.application = 9, .resumable = false}) == 0);
  CHECK(reason_of({new_steps}, {}).find("job.resumable") != std::string::npos);
}

TEST_CASE("out of memory is not tried the same way twice: once on another node, where there is one to avoid") {
  const PastEnd here{F::out_of_memory, "c", false, "n1"}, unknown = barren(F::out_of_memory);
  const RetryBudgets can{.application = 9, .can_exclude = true}, cannot{.application = 9, .can_exclude = false};
  CHECK(tries_after({here, here}, can) == 1);
  CHECK(tries_after({here, {F::out_of_memory, "c", true, "n2"}}, can) == 1);
  CHECK(tries_after({here}, cannot) == 0);
  CHECK(tries_after({unknown}, can) == 0);  // several nodes: none to point at
  CHECK(reason_of({here}, can).find("n1") != std::string::npos);
  CHECK(reason_of({here, here}, can).find("smaller batches") != std::string::npos);
}

TEST_CASE("what is hopeless or meant is not tried again whatever the budgets are") {
  const RetryBudgets rich{
      .application = 99, .infrastructure = 99, .preemptions = 99, .resumable = true, .can_exclude = true};
  for (const F fault : {F::bad_input, F::time_limit, F::cancelled, F::cancelled_there, F::none}) {
    CAPTURE(to_string(fault));
    const RetryVerdict verdict = decide_retry({fruitful(fault)}, rich);
    CHECK(!verdict.again);
    CHECK(!verdict.reason.empty());
  }
  CHECK(reason_of({barren(F::cancelled_there)}, rich).find("longhaul resume") != std::string::npos);
  CHECK(reason_of({barren(F::bad_input)}, rich) ==
        "bad_input is not cured by trying again: the stage refused its input or settings");
}

TEST_CASE("the program's budget counts all of its faults, with or without progress; a third equal cause stops before") {
  const RetryBudgets two{.application = 2};
  CHECK(tries_after({barren(F::crash, "a"), barren(F::program, "b"), barren(F::lost, "c")}, two) == 2);
  CHECK(tries_after(std::vector<PastEnd>(9, fruitful(F::crash)), two) == 2);
  const RetryBudgets rich{.application = 99};
  CHECK(tries_after(std::vector<PastEnd>(9, barren(F::crash)), rich) == 2);
  CHECK(tries_after({barren(F::crash), barren(F::crash), fruitful(F::crash), barren(F::crash), barren(F::crash)},
                    rich) == 5);
  // Something else in between is news: the count begins again.
  CHECK(tries_after({barren(F::crash), barren(F::crash), barren(F::node_fail), barren(F::crash)}, rich) == 4);
  CHECK(reason_of({barren(F::crash)}, two) == "attempt 2 of 3");
  CHECK(decide_retry({}, {.application = 0}).again);
}

TEST_CASE("where work goes on from what was saved, progress fills the program's budget up again") {
  const RetryBudgets one{.application = 1, .resumable = true};
  const PastEnd moved = fruitful(F::crash), stood = barren(F::crash);
  CHECK(tries_after(std::vector<PastEnd>(200, moved), one) == 200);
  CHECK(tries_after({moved, moved, stood, moved}, one) == 2);
  CHECK(tries_after({stood, stood}, one) == 1);
  CHECK(tries_after({moved}, {.application = 0, .resumable = true}) == 0);  // none granted is none
  CHECK(reason_of({moved}, one) == "retry 1 of 1 since it last got further");
  CHECK(reason_of({moved, stood}, one) == "all 1 retries used");
  // A bug at a certain step: progress up to the checkpoint before it, and then never again.
  const RetryBudgets rich{.application = 99, .resumable = true};
  CHECK(tries_after({fruitful(F::exception, "step 7 is odd"), barren(F::exception, "step 7 is odd"),
                     barren(F::exception, "step 7 is odd"), barren(F::exception, "step 7 is odd")},
                    rich) == 3);
}

TEST_CASE("one cause in other words is one cause") {
  const RetryBudgets rich{.application = 99};
  CHECK(tries_after({barren(F::crash, "rank 1 ended: killed by signal 11 at 0x7f01"),
                     barren(F::crash, "rank 3 ended: killed by signal 11 at 0x7f02"),
                     barren(F::crash, "rank 2 ended: killed by signal 11 at 0x7f03")},
                    rich) == 2);
  CHECK(tries_after({barren(F::crash, "killed by signal 11"), barren(F::crash, "killed by signal 6"),
                     barren(F::crash, "killed by signal 11")},
                    rich) == 3);
}

TEST_CASE("93 is never tried again; 16 and 17 are, whatever the user granted to the program, but not for ever") {
  CHECK(tries_after({fruitful(F::no_retry)}, {.application = 99, .resumable = true}) == 0);
  const RetryBudgets none{.application = 0};
  for (const F fault : {F::rerun_to_compare, F::failed_validation}) {
    CAPTURE(to_string(fault));
    CHECK(tries_after(std::vector<PastEnd>(9, barren(fault)), none) == 2);
    CHECK(tries_after(std::vector<PastEnd>(9, fruitful(fault)), none) == 9);
    CHECK(tries_after({barren(fault)}, {.validations = 0}) == 0);
  }
  // They do not use up each other's budgets with the program's faults.
  CHECK(tries_after({barren(F::failed_validation), barren(F::crash), barren(F::rerun_to_compare)},
                    {.application = 1}) == 3);
}

TEST_CASE("every class that a launch can end by has an answer with a reason") {
  for (const FaultInfo& info : fault_table) {
    CAPTURE(info.name);
    const RetryVerdict verdict = decide_retry({barren(info.fault)}, {.application = 1, .resumable = true});
    CHECK(!verdict.reason.empty());
    if (info.group == FaultGroup::none || info.group == FaultGroup::hopeless) CHECK(!verdict.again);
    if (info.group == FaultGroup::application || info.group == FaultGroup::infrastructure) CHECK(verdict.again);
  }
}

}  // namespace longhaul
