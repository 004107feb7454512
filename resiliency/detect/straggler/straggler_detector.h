// Which ranks compute more slowly than they should. A training goes at the pace of its slowest rank, and nothing hangs.
//
// Intuition: a rank whose time to compute a step (sections without communication only: waiting makes all ranks alike)
// is longer than its peers' in most of the last steps is slow; one long step, or a slow week of all, is not. Rule: a
// step of a rank is *slow* where it took `slower_than_peers` longer than the median of its peers in the very same step,
// or where its time, by that median, is `slower_than_itself` longer than the best it ever was (the smallest median of a
// block of 64 steps). `needed` slow steps of the last `window` are an alarm, and it ends when at most `ends_at` are
// left. So what all ranks share (drift, a longer sequence) cancels out, and a spike counts as one step however high it
// is. A rank without peers has only absolute times: there the median rank's time by its own best is what all share. The
// median of all ranks (of an even number the lower one, here and there, so that one of two ranks is not all) is watched
// in the same way, against its own best. It may well be slower, too, where one rank is: who waits long computes with
// cold caches and a clock that has gone down (16 % seen), which excuses nobody for more than that.
//
// Where steps are shorter than the time between two looks, one observation is the mean of several steps: it counts as
// one in the window and as all of them in the history, so that a rank has a past after 64 steps, not after 64 looks. A
// block has five observations or more: the median of fewer could be a spike's.
//
// The thresholds, for normal noise of 3 % a step, one step in 100 as a spike, and drift of 2 % up and down (own and
// common): a healthy rank at the top of its drift is slow by its peers in 3 % of its steps, 9 of 15 come together once
// in 10^9 steps of a rank; one 15 % slower at the bottom of its drift is slow in 88 %. By itself only 20 % are sure to
// be found: the best lies lower than the middle. As scores these are the two of NVIDIA's resiliency extension
// (attribution/straggler), reference time by own time: there the reference is the smallest median of all ranks, which
// among 16,384 lies four deviations below the middle, so that only ranks a third slower (score 0.75) can be separated
// from noise. Both are in the finding.
//
// Cost: one pass over the ranks a step; 260 bytes a rank. One thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace longhaul {

struct StragglerOptions {
  double slower_than_peers = 0.08;
  double slower_than_itself = 0.15;
  double all_slower = 0.10;
  int window = 15;  // steps, at most 32
  int needed = 9;
  int ends_at = 5;
  int warm_up_steps = 5;   // not looked at
  int block_least = 5;     // observations
  int history_block = 64;  // steps
};

struct StragglerFinding {
  enum class Kind {
    peers,   // slower than the others
    itself,  // slower than it was, though not (yet) than its peers
    all,     // the median of all ranks is: the fabric, a file system, or the work itself; rank is -1
    over,    // no longer
  };
  Kind kind = Kind::peers;
  int rank = -1;
  std::int64_t step = 0;
  std::int64_t since_step = 0;  // the first of the slow steps that raised the alarm; of over: step
  double slowdown = 0;  // its median by that of its peers (kind peers) or by its own best; 1.15: takes 15 % longer
  double relative_score = 1;    // smallest median of its peers / own median, over the window
  double individual_score = 1;  // own best / own median; 1 while there is no history
  std::string text() const;
};
const char* to_string(StragglerFinding::Kind kind);

class StragglerDetector {
 public:
  // Ranks with the same number do the same work and are compared (a stage of the pipeline, say). Groups below three
  // ranks have only their own history.
  explicit StragglerDetector(std::vector<int> group_of_rank, const StragglerOptions& options = {});

  // What each rank took to compute in this step, in seconds; 0 or NaN: not known. `steps`: so many went by since the
  // last observation, and these are the means over them.
  std::vector<StragglerFinding> observe(std::int64_t step, std::span<const float> seconds, std::int64_t steps = 1);

 private:
  struct Rank {
    std::uint32_t slow_by_peers = 0, slow_by_itself = 0;  // one bit a step, the newest lowest
    float best = 0;                                       // 0: no history yet
    StragglerFinding::Kind reported = StragglerFinding::Kind::over;
  };
  float reference_of(const std::vector<std::size_t>& group, std::span<const float> seconds, bool lower);
  std::int64_t since_step(StragglerFinding::Kind kind, const Rank& one) const;
  float slowdown_of_all(std::span<const float> seconds);
  void note(std::size_t row, std::size_t column, float value, float excused);
  void close_block();
  float median_of_window(std::size_t column) const;
  StragglerFinding finding(StragglerFinding::Kind kind, std::size_t rank, std::int64_t step) const;
  std::vector<StragglerFinding> changes(std::int64_t step);

  StragglerOptions options_;
  std::vector<std::vector<std::size_t>> groups_;
  std::vector<std::size_t> group_of_, everybody_;
  std::vector<Rank> ranks_;  // and one more, the median of all
  std::size_t row_length_ = 0;
  std::vector<float> history_;             // [history_block, ranks + 1]: seconds by those of the peers; 0: not known
  std::vector<std::int64_t> step_of_row_;  // [history_block]
  std::vector<float> scratch_;
  std::int64_t steps_seen_ = 0, rows_ = 0;         // rows: observations after the warm-up
  std::int64_t block_steps_ = 0, block_rows_ = 0;  // of the block that is not closed yet
};

}  // namespace longhaul
