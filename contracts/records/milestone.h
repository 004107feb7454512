// Milestones of a training: its model every so many steps, published while it goes on. Each is an artifact of its own
// in stages/<id>/milestones/<step>/, in the form of the stage's own artifact, whole or absent like that one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/value/value.h"

namespace longhaul {

inline constexpr const char* milestone_setting = "milestone_every";
inline constexpr std::int64_t milestones_max = 1000;  // of one training: each holds all weights

// Steps after which a training with these settings publishes: every, 2 * every, ... below `steps`, whose model is the
// stage's artifact. Empty where the settings ask for none, for more than milestones_max, or do not say how many steps
// there are.
std::vector<std::int64_t> milestone_steps(const Value& settings);

std::string milestone_folder(const std::string& milestones_dir, std::int64_t step);

// Names what a milestone holds, as the stage's key names its artifact.
std::string milestone_key(const std::string& stage_key, std::int64_t step);

// Steps of the milestones published below a stage's milestones folder, ascending; none where it does not exist.
std::vector<std::int64_t> published_milestones(const std::string& milestones_dir);

}  // namespace longhaul
