// What every TrialRunner promises (autotune/trials/trial_runner.h), held against whatever `Rig` makes:
//   TrialRunner& runner();           the same trials behind it, also after reopen()
//   void reopen();                   as if its process had been killed and another one goes on
//   Trial trial(name, seconds);      one that ends well with that step time; name "crash", "memory" and "refused...":
//   so int starts(name);                how often it was begun, counted from outside void wait();                     a
//   moment
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "autotune/trials/trial_runner.h"

namespace longhaul {

template <class Rig>
std::vector<TrialResult> poll_until_over(Rig& rig) {
  for (int polls = 0; polls < 4000; ++polls) {
    const auto results = rig.runner().poll();
    REQUIRE_MESSAGE(results.ok(), (results.ok() ? "" : results.error().message()));
    if (std::all_of(results->begin(), results->end(), [](const TrialResult& one) { return is_over(one.outcome); }))
      return *results;
    rig.wait();
  }
  FAIL("the trials do not end");
  return {};
}

template <class Rig>
void check_trial_runner_contract(Rig& rig) {
  CHECK(rig.runner().poll()->empty());
  CHECK(rig.runner().stop("nobody").error().code == ErrorCode::not_found);
  const std::vector<Trial> first = {rig.trial("fast", 0.01), rig.trial("slow", 0.03)};
  REQUIRE(rig.runner().submit(first).ok());
  REQUIRE(rig.runner().submit(first).ok());  // known by name, while they run
  rig.reopen();
  REQUIRE(rig.runner().submit(first).ok());  // and to another process
  const auto known = rig.runner().poll();
  REQUIRE(known.ok());
  REQUIRE(known->size() == 2);
  CHECK((*known)[0].name == "fast");
  CHECK((*known)[1].name == "slow");
  const auto measured = poll_until_over(rig);
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(measured[i].outcome == TrialOutcome::measured);
    CHECK(measured[i].begun);
    CHECK(measured[i].steps_done == first[i].steps);
    REQUIRE(measured[i].step_seconds.size() >= 3);
    CHECK(measured[i].step_seconds[0] == doctest::Approx(i == 0 ? 0.01 : 0.03).epsilon(1e-6));
    CHECK(measured[i].losses.size() >= 3);
    CHECK(measured[i].node_seconds >= 0);
    CHECK(rig.starts(measured[i].name) == 1);
  }
  REQUIRE(rig.runner().submit(first).ok());  // also when they are over
  const std::vector<Trial> more = {rig.trial("fast", 0.01), rig.trial("crash", 0.01), rig.trial("memory", 0.01),
                                   rig.trial("refused", 0.01)};
  REQUIRE(rig.runner().submit(more).ok());
  const auto all = poll_until_over(rig);
  REQUIRE(all.size() == 5);
  const auto of = [&](const std::string& name) {
    const auto found = std::find_if(all.begin(), all.end(), [&](const TrialResult& one) { return one.name == name; });
    REQUIRE(found != all.end());
    return *found;
  };
  CHECK(of("crash").outcome == TrialOutcome::crash);
  CHECK(of("memory").outcome == TrialOutcome::out_of_memory);
  CHECK(of("refused").outcome == TrialOutcome::refused);
  CHECK_FALSE(of("refused").begun);
  for (const char* name : {"crash", "memory", "refused"}) CHECK_FALSE(of(name).what.empty());
  CHECK(of("fast").step_seconds == measured[0].step_seconds);  // over is over
  for (const char* name : {"fast", "slow", "crash", "memory"}) CHECK(rig.starts(name) == 1);
  CHECK(rig.runner().stop("fast").ok());  // nothing is left to stop
  CHECK(rig.starts("refused") == 0);

  REQUIRE(rig.runner().submit(std::vector<Trial>{rig.trial("endless", 0.01)}).ok());
  for (int polls = 0; polls < 2000; ++polls) {
    const auto results = rig.runner().poll();
    REQUIRE(results.ok());
    if (std::any_of(results->begin(), results->end(), [](const TrialResult& one) {
          return one.name == "endless" && (one.steps_done >= 3 || is_over(one.outcome));
        }))
      break;
    rig.wait();
  }
  CHECK(rig.runner().stop("endless").ok());
  const auto ended = poll_until_over(rig);
  const auto endless =
      std::find_if(ended.begin(), ended.end(), [](const TrialResult& one) { return one.name == "endless"; });
  REQUIRE(endless != ended.end());
  CHECK(endless->outcome == TrialOutcome::stopped);
  CHECK(endless->steps_done >= 3);
  rig.reopen();
  const auto later = rig.runner().poll();
  REQUIRE(later.ok());
  CHECK(later->size() == 6);
  for (const TrialResult& one : *later) CHECK(is_over(one.outcome));
}

}  // namespace longhaul
