#include "worker/lead/monitor/stack_round.h"

#include "base/files/files.h"
#include "base/text/text.h"

namespace longhaul {
namespace {

// A node looks at eight ranks at a time, and has seldom more; an agent may have lost its lead for a moment.
constexpr std::int64_t patience_ms = 3 * StackDumps::deadline_default_ms;
constexpr std::int64_t stack_interval_ms = 100;

}  // namespace

void StackRound::begin(const std::string& launch_dir, int ranks, const std::map<int, pid_t>& pids, AgentTable* agents) {
  if (under_way_) return;
  under_way_ = true;
  problem_.clear();
  folder_ = stacks_folder(launch_dir);
  ranks_ = ranks;
  until_ns_ = clock_.monotonic_ns() + patience_ms * 1'000'000;
  next_look_ns_ = 0;
  Status begun = set_earlier_stacks_aside(launch_dir);
  if (begun.ok()) begun = make_directories(folder_);
  if (begun.ok() && agents) agents->dump_stacks(folder_);
  if (begun.ok() && !agents) {
    std::vector<StackTarget> targets;
    for (int rank = 0; rank < ranks; ++rank) {
      const auto known = pids.find(rank);
      targets.push_back({rank, known == pids.end() ? 0 : known->second});
    }
    begun = dumps_.begin(folder_, targets);
  }
  if (!begun.ok()) problem_ = begun.error().message();
}

std::vector<int> StackRound::missing() const {
  std::vector<int> missing;
  for (int rank = 0; rank < ranks_; ++rank)
    if (!file_exists(stack_path(folder_, rank))) missing.push_back(rank);
  return missing;
}

std::optional<OrderOutcome> StackRound::look() {
  if (!under_way_) return std::nullopt;
  const bool done_here = dumps_.look();
  const std::int64_t now = clock_.monotonic_ns();
  if (problem_.empty() && now < until_ns_ && (!done_here || now < next_look_ns_)) return std::nullopt;
  next_look_ns_ = now + stack_interval_ms * 1'000'000;
  const std::vector<int> without = problem_.empty() ? missing() : std::vector<int>{};
  if (!without.empty() && now < until_ns_) return std::nullopt;
  under_way_ = false;
  if (!problem_.empty()) return OrderOutcome{false, "no stacks: " + problem_};
  if (without.empty()) return OrderOutcome{true, format("stacks of {} ranks in {}", ranks_, folder_)};
  return OrderOutcome{static_cast<int>(without.size()) < ranks_,
                      format("stacks of {} of {} ranks in {}; nothing came of rank {}",
                             ranks_ - static_cast<int>(without.size()), ranks_, folder_, without.front())};
}

}  // namespace longhaul
