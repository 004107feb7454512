#include "resiliency/detect/straggler/straggler_detector.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>

#include "base/text/text.h"

namespace longhaul {
namespace {

constexpr std::size_t peers_least = 3;
constexpr std::size_t sample_most = 1024;

float median_of(std::vector<float>& values, bool lower = false) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - (lower ? 1 : 0)) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

bool is_known(float seconds) {
  return seconds > 0 && std::isfinite(seconds);
}

}  // namespace

const char* to_string(StragglerFinding::Kind kind) {
  switch (kind) {
    case StragglerFinding::Kind::peers: return "slower than its peers";
    case StragglerFinding::Kind::itself: return "slower than it was";
    case StragglerFinding::Kind::all: return "all slower than they were";
    case StragglerFinding::Kind::over: return "no longer slow";
  }
  return "";
}

std::string StragglerFinding::text() const {
  const std::string who = rank < 0 ? std::string("the median of all ranks") : format("rank {}", rank);
  if (kind == Kind::over) return format("step {}: {}: {}", step, who, to_string(kind));
  return format("step {}: {}: {} since step {}, takes {:.0f} % longer (score by peers {:.2f}, by itself {:.2f})", step,
                who, to_string(kind), since_step, 100 * (slowdown - 1), relative_score, individual_score);
}

StragglerDetector::StragglerDetector(std::vector<int> group_of_rank, const StragglerOptions& options)
    : options_(options), group_of_(group_of_rank.size()), ranks_(group_of_rank.size() + 1) {
  std::map<int, std::size_t> index;
  for (std::size_t rank = 0; rank < group_of_rank.size(); ++rank) {
    const auto [found, is_new] = index.try_emplace(group_of_rank[rank], groups_.size());
    if (is_new) groups_.emplace_back();
    group_of_[rank] = found->second;
    groups_[found->second].push_back(rank);
    everybody_.push_back(rank);
  }
  // Rows of a power of two would all fall into the same few lines of a cache.
  row_length_ = ranks_.size() + 16;
  history_.resize(row_length_ * static_cast<std::size_t>(options_.history_block));
  step_of_row_.resize(static_cast<std::size_t>(options_.history_block));
}

// The median time of a group; of a big one, of a thousand of its ranks: it is the same within 0.2 %.
float StragglerDetector::reference_of(const std::vector<std::size_t>& group, std::span<const float> seconds,
                                      bool lower) {
  const std::size_t every = std::max<std::size_t>(1, group.size() / sample_most);
  scratch_.clear();
  for (std::size_t i = 0; i < group.size(); i += every)
    if (is_known(seconds[group[i]])) scratch_.push_back(seconds[group[i]]);
  return scratch_.empty() ? 0 : median_of(scratch_, lower);
}

// What ranks without peers share: the median of their times by their own best; at least 1.
float StragglerDetector::slowdown_of_all(std::span<const float> seconds) {
  scratch_.clear();
  for (const std::vector<std::size_t>& group : groups_)
    if (group.size() < peers_least)
      for (const std::size_t rank : group)
        if (is_known(seconds[rank]) && ranks_[rank].best > 0) scratch_.push_back(seconds[rank] / ranks_[rank].best);
  return scratch_.empty() ? 1 : std::max(1.0F, median_of(scratch_, true));
}

void StragglerDetector::note(std::size_t row, std::size_t column, float value, float excused) {
  history_[row * row_length_ + column] = value;
  Rank& one = ranks_[column];
  const float limit =
      static_cast<float>(1 + (column + 1 == ranks_.size() ? options_.all_slower : options_.slower_than_itself));
  const bool slow = one.best > 0 && value > one.best * limit * excused;
  one.slow_by_itself = one.slow_by_itself << 1 | static_cast<std::uint32_t>(slow);
}

void StragglerDetector::close_block() {
  for (std::size_t column = 0; column < ranks_.size(); ++column) {
    scratch_.clear();
    for (std::int64_t back = 1; back <= block_rows_; ++back) {
      const auto row = static_cast<std::size_t>((rows_ - back) % options_.history_block);
      if (const float value = history_[row * row_length_ + column]; value > 0) scratch_.push_back(value);
    }
    if (2 * static_cast<std::int64_t>(scratch_.size()) < block_rows_) continue;
    const float median = median_of(scratch_);
    float& best = ranks_[column].best;
    best = best > 0 ? std::min(best, median) : median;
  }
  block_steps_ = block_rows_ = 0;
}

float StragglerDetector::median_of_window(std::size_t column) const {
  std::vector<float> values;
  for (std::int64_t i = std::max<std::int64_t>(0, rows_ - options_.window); i < rows_; ++i) {
    const auto row = static_cast<std::size_t>(i % options_.history_block);
    if (const float value = history_[row * row_length_ + column]; value > 0) values.push_back(value);
  }
  return values.empty() ? 0 : median_of(values);
}

// Back over as many slow steps as an alarm needs.
std::int64_t StragglerDetector::since_step(StragglerFinding::Kind kind, const Rank& one) const {
  const std::uint32_t slow = kind == StragglerFinding::Kind::peers ? one.slow_by_peers : one.slow_by_itself;
  int back = 0;
  if (kind != StragglerFinding::Kind::over)
    for (int bit = 0, seen = 0; bit < options_.window && seen < options_.needed; ++bit)
      if (slow >> bit & 1) ++seen, back = bit;
  return step_of_row_[static_cast<std::size_t>((rows_ - 1 - back) % options_.history_block)];
}

StragglerFinding StragglerDetector::finding(StragglerFinding::Kind kind, std::size_t rank, std::int64_t step) const {
  const bool all = rank + 1 == ranks_.size();
  StragglerFinding found{kind, all ? -1 : static_cast<int>(rank), step, since_step(kind, ranks_[rank]), 1, 1, 1};
  const float own = median_of_window(rank);
  if (own <= 0) return found;
  std::vector<float> peers = {own};
  for (const std::size_t peer : all ? everybody_ : groups_[group_of_[rank]])
    if (const float median = all ? 0 : median_of_window(peer); median > 0) peers.push_back(median);
  found.relative_score = *std::min_element(peers.begin(), peers.end()) / own;
  if (ranks_[rank].best > 0) found.individual_score = ranks_[rank].best / own;
  found.slowdown = kind == StragglerFinding::Kind::peers ? own / median_of(peers) : 1 / found.individual_score;
  return found;
}

std::vector<StragglerFinding> StragglerDetector::observe(std::int64_t step, std::span<const float> seconds,
                                                         std::int64_t steps) {
  if (seconds.size() != group_of_.size() || steps < 1) return {};
  steps_seen_ += steps;
  if (steps_seen_ - steps < options_.warm_up_steps) return {};
  const auto row = static_cast<std::size_t>(rows_ % options_.history_block);
  step_of_row_[row] = step;
  const float of_all = slowdown_of_all(seconds);
  for (const std::vector<std::size_t>& group : groups_) {
    const bool compared = group.size() >= peers_least;
    const float peers = compared ? reference_of(group, seconds, false) : 0;
    const float by_peers = peers > 0 ? 1 / peers : 1;
    const auto limit = static_cast<float>(1 + options_.slower_than_peers);
    for (const std::size_t rank : group) {
      const float value = is_known(seconds[rank]) && (peers > 0 || !compared) ? seconds[rank] * by_peers : 0;
      Rank& one = ranks_[rank];
      one.slow_by_peers = one.slow_by_peers << 1 | static_cast<std::uint32_t>(compared && value > limit);
      note(row, rank, value, compared ? 1 : of_all);
    }
  }
  note(row, ranks_.size() - 1, reference_of(everybody_, seconds, true), 1);
  ++rows_, ++block_rows_;
  block_steps_ += steps;
  if (block_steps_ >= options_.history_block && block_rows_ >= options_.block_least) close_block();
  return changes(step);
}

std::vector<StragglerFinding> StragglerDetector::changes(std::int64_t step) {
  using Kind = StragglerFinding::Kind;
  const std::uint32_t mask = options_.window >= 32 ? ~0U : (1U << options_.window) - 1;
  const std::size_t all = ranks_.size() - 1;
  std::vector<StragglerFinding> found;
  for (std::size_t rank = 0; rank <= all; ++rank) {
    Rank& one = ranks_[rank];
    // A count rises only with a slow step.
    if (((one.slow_by_peers | one.slow_by_itself) & 1) == 0 && one.reported == Kind::over) continue;
    const int by_peers = std::popcount(one.slow_by_peers & mask), by_itself = std::popcount(one.slow_by_itself & mask);
    Kind kind = one.reported;
    if (by_peers >= options_.needed) {
      kind = Kind::peers;
    } else if (by_itself >= options_.needed && one.reported == Kind::over) {
      kind = rank == all ? Kind::all : Kind::itself;
    } else if (by_peers <= options_.ends_at && by_itself <= options_.ends_at) {
      kind = Kind::over;
    }
    if (kind == one.reported) continue;
    one.reported = kind;
    found.push_back(finding(kind, rank, step));
  }
  return found;
}

}  // namespace longhaul
