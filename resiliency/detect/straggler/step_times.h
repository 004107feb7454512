// How long each rank computed per step, from pages that are looked at now and then: what StragglerDetector wants.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "resiliency/detect/hang/rank_observation.h"

namespace longhaul {

// Pages count computing time and steps. Where several steps went by between two looks their mean stands for all of
// them, which hides a spike and keeps what lasts. One thread.
class StepTimes {
 public:
  explicit StepTimes(int ranks) : ranks_(static_cast<std::size_t>(ranks)), seconds_(ranks_.size()) {}
  // True once all ranks with a page have done a further step: then seconds() are of it, and step() is its number.
  bool observe(const std::vector<RankObservation>& ranks);
  std::int64_t step() const { return step_; }
  // So many further ones, at least, every rank has done since observe() was true before.
  std::int64_t steps() const { return steps_; }
  std::span<const float> seconds() const { return seconds_; }  // by rank; 0: not known

 private:
  struct Rank {
    std::int64_t step = -1, computed_ns = 0;   // at the last look
    std::int64_t last_step = -1, last_ns = 0;  // when observe() was true last
    bool known = false;
  };
  std::vector<Rank> ranks_;
  std::vector<float> seconds_;
  std::int64_t step_ = -1, steps_ = 0;
};

}  // namespace longhaul
