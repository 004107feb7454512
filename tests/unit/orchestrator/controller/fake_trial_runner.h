// Trials without jobs: each poll is one step of those that run. Passes trial_runner_contract.h, as the real one does.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "autotune/trials/trial_runner.h"

namespace longhaul {

// What outlives a process.
struct FakeTrials {
  struct Played {
    Trial trial;
    TrialResult result;
  };
  std::vector<Played> played;
  std::map<std::string, int> starts;
};

class FakeTrialRunner final : public TrialRunner {
 public:
  explicit FakeTrialRunner(FakeTrials& trials) : trials_(trials) {}

  Status submit(std::span<const Trial> trials) override {
    for (const Trial& trial : trials) {
      if (find(trial.name)) continue;
      FakeTrials::Played played;
      played.trial = trial;
      played.result.name = trial.name;
      if (trial.name == "refused") {
        played.result.outcome = TrialOutcome::refused;
        played.result.what = "nobody takes it";
        played.result.begun = false;
      } else {
        ++trials_.starts[trial.name];
      }
      trials_.played.push_back(std::move(played));
    }
    return {};
  }

  Result<std::vector<TrialResult>> poll() override {
    std::vector<TrialResult> results;
    for (FakeTrials::Played& played : trials_.played) {
      if (!is_over(played.result.outcome)) step(played);
      results.push_back(played.result);
    }
    return results;
  }

  Status stop(const std::string& name) override {
    FakeTrials::Played* played = find(name);
    if (!played) return make_error(ErrorCode::not_found, "no trial '" + name + "' was submitted");
    if (!is_over(played->result.outcome)) played->result.outcome = TrialOutcome::stopped;
    return {};
  }

 private:
  FakeTrials::Played* find(const std::string& name) {
    for (FakeTrials::Played& played : trials_.played)
      if (played.trial.name == name) return &played;
    return nullptr;
  }

  static void step(FakeTrials::Played& played) {
    TrialResult& result = played.result;
    result.outcome = TrialOutcome::running;
    const auto ends = [&](TrialOutcome outcome, const char* what) { result.outcome = outcome, result.what = what; };
    if (result.name == "crash" && result.steps_done == 2) return ends(TrialOutcome::crash, "signal 11");
    if (result.name == "memory" && result.steps_done == 1) return ends(TrialOutcome::out_of_memory, "no room");
    ++result.steps_done;
    result.step_seconds.push_back(played.trial.predicted_seconds);
    result.losses.emplace_back(result.steps_done, 5.0);
    result.node_seconds += played.trial.predicted_seconds;
    if (result.steps_done == played.trial.steps) result.outcome = TrialOutcome::measured;
  }

  FakeTrials& trials_;
};

}  // namespace longhaul
