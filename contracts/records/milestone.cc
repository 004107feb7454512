#include "contracts/records/milestone.h"

#include <algorithm>
#include <charconv>

#include "base/digest/hash.h"
#include "base/files/files.h"
#include "base/text/text.h"
#include "contracts/settings/training/training.h"

namespace longhaul {

std::vector<std::int64_t> milestone_steps(const Value& settings) {
  const std::int64_t every = settings.get_integer(milestone_setting), steps = configured_steps(settings);
  std::vector<std::int64_t> milestones;
  if (every < 1 || (steps - 1) / every > milestones_max) return milestones;
  for (std::int64_t step = every; step < steps; step += every) milestones.push_back(step);
  return milestones;
}

std::string milestone_folder(const std::string& milestones_dir, std::int64_t step) {
  return join_path(milestones_dir, std::to_string(step));
}

std::string milestone_key(const std::string& stage_key, std::int64_t step) {
  return xxh3_128_hex(format("{}\nmilestone {}\n", stage_key, step));
}

std::vector<std::int64_t> published_milestones(const std::string& milestones_dir) {
  std::vector<std::int64_t> steps;
  const auto names = list_directory(milestones_dir);
  if (!names.ok()) return steps;
  for (const std::string& name : *names) {  // others are not finished: their names begin with a dot
    std::int64_t step = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
    if (error == std::errc() && end == name.data() + name.size() && step > 0) steps.push_back(step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

}  // namespace longhaul
