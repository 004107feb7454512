#include "engine/train/step/gradient_replay.h"

#include <algorithm>
#include <cstdlib>

#include "base/text/text.h"
#include "engine/train/step/replay_verdict.h"

namespace longhaul {
namespace {

// Bits of a digest travel as two whole numbers.
Result<std::vector<ReplayDigests>> gather_digests(CollectiveGroup& ranks, const ReplayDigests& mine) {
  constexpr std::size_t width = 2 * ReplayDigests::fields;
  std::vector<double> packed(width), all(width * static_cast<std::size_t>(ranks.size()));
  for (std::size_t i = 0; i < ReplayDigests::fields; ++i) {
    packed[2 * i] = static_cast<double>(mine.of[i] >> 32U);
    packed[2 * i + 1] = static_cast<double>(mine.of[i] & 0xffffffffU);
  }
  LH_CHECK(ranks.all_gather(std::span<const double>(packed), all));
  std::vector<ReplayDigests> found(static_cast<std::size_t>(ranks.size()));
  for (std::size_t r = 0; r < found.size(); ++r)
    for (std::size_t i = 0; i < ReplayDigests::fields; ++i)
      found[r].of[i] = static_cast<std::uint64_t>(all[r * width + 2 * i]) << 32U |
                       static_cast<std::uint64_t>(all[r * width + 2 * i + 1]);
  return found;
}

std::size_t neighbour_of(std::size_t rank, std::size_t ranks) {
  return (rank + 1) % ranks;
}

bool differs(std::span<const ReplayDigests> ranks, std::size_t rank) {
  return ranks[rank].of[ReplayDigests::neighbour] != ranks[neighbour_of(rank, ranks.size())].of[ReplayDigests::own];
}

ReplayRound round_of(std::span<const ReplayDigests> ranks, std::size_t rank, const std::vector<int>& members) {
  const std::size_t owner = neighbour_of(rank, ranks.size());
  ReplayRound round;
  round.owner = members[owner], round.replayer = members[rank];
  round.first = ranks[owner].of[ReplayDigests::own], round.replay = ranks[rank].of[ReplayDigests::neighbour];
  round.first_again = ranks[owner].of[ReplayDigests::own_again];
  round.replay_again = ranks[rank].of[ReplayDigests::neighbour_again];
  if (ranks.size() > 2) {
    const std::size_t third = (rank + ranks.size() - 1) % ranks.size();
    round.third = members[third], round.third_digest = ranks[third].of[ReplayDigests::third];
  }
  return round;
}

// Whether any rank of the world says so.
Result<bool> any_of_all(CollectiveGroup& world, bool here) {
  const double mine = here ? 1 : 0;
  std::vector<double> all(static_cast<std::size_t>(world.size()));
  LH_CHECK(world.all_gather(std::span<const double>(&mine, 1), all));
  return std::ranges::any_of(all, [](double one) { return one != 0; });
}

}  // namespace

bool digests_differ(std::span<const ReplayDigests> ranks) {
  for (std::size_t r = 0; r < ranks.size(); ++r)
    if (differs(ranks, r)) return true;
  return false;
}

std::string judge_digests(std::int64_t step, std::span<const ReplayDigests> ranks, const std::vector<int>& members) {
  std::string lines;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    if (!differs(ranks, r)) continue;
    const ReplayJudgement judged = judge_replay(step, round_of(ranks, r, members));
    lines += format("{} {}\n", judged.rank, judged.reason);
  }
  return lines;
}

SilentCorruption corruption_of(std::int64_t step, std::int64_t sound_step, const std::vector<std::string>& judgements) {
  SilentCorruption found;
  found.step = step, found.sound_step = sound_step, found.decided = false;
  std::vector<std::string> reasons;
  for (const std::string& text : judgements)
    for (const std::string& line : split(text, '\n')) {
      if (line.empty()) continue;
      const int rank = std::atoi(line.c_str());
      if (rank >= 0 && !found.decided) found.rank = rank, found.decided = true;
      reasons.push_back(line.substr(line.find(' ') + 1));
    }
  if (!found.decided) found.rank = 0;  // who speaks
  found.what = format("the gradient of a micro-batch of step {}: {}; the update was not made", step,
                      longhaul::join(reasons, "; "));
  return found;
}

bool GradientReplay::is_due(std::int64_t step) const {
  return every_ > 0 && mesh_.data().size() > 1 && step % every_ == 0;
}

void GradientReplay::begin_at(std::int64_t step) {
  if (sound_step_ < 0) sound_step_ = step;
}

Status GradientReplay::compute_neighbour(const Compute& compute) {
  LH_TRY(neighbour_, compute(1));
  return {};
}

Result<std::optional<SilentCorruption>> GradientReplay::compare(std::int64_t step, const Compute& compute) {
  CollectiveGroup& data = mesh_.data();
  ReplayDigests mine;
  mine.of[ReplayDigests::own] = own_, mine.of[ReplayDigests::neighbour] = neighbour_;
  LH_TRY(std::vector<ReplayDigests> all, gather_digests(data, mine));
  LH_TRY(const bool differs, any_of_all(mesh_.world(), digests_differ(all)));
  if (!differs) {
    sound_step_ = step;
    return std::optional<SilentCorruption>();
  }
  // The step is over, its sums are of no use any more: their memory is. All compute, for ranks of a replica work
  // together.
  LH_TRY(mine.of[ReplayDigests::own_again], compute(0));
  LH_TRY(mine.of[ReplayDigests::neighbour_again], compute(1));
  if (all.size() > 2) {
    LH_TRY(mine.of[ReplayDigests::third], compute(2));
  }
  LH_TRY(all, gather_digests(data, mine));
  const std::string judged = data.is_first() ? judge_digests(step, all, data.communicator()->members()) : "";
  LH_TRY(const std::vector<std::string> texts, mesh_.world().all_gather_text(judged));
  return std::optional(corruption_of(step, sound_step_, texts));
}

}  // namespace longhaul
