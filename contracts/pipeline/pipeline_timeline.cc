#include "contracts/pipeline/pipeline_timeline.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <tuple>

#include "base/text/text.h"
#include "contracts/pipeline/pipeline_stages.h"

namespace longhaul {
namespace {
using Kind = ScheduleOp::Kind;
using Lists = std::vector<std::vector<ScheduleOp>>;

double cost_of(const StageCosts& costs, Kind kind) {
  switch (kind) {
    case Kind::forward: return costs.forward;
    case Kind::backward_input: return costs.backward_input;
    case Kind::backward_weight: return costs.backward_weight;
    case Kind::backward: return costs.backward;
  }
  return 0;
}

Status check_costs(const PipelineCosts& costs, int stages) {
  if (costs.stages.size() != 1 && costs.stages.size() != static_cast<std::size_t>(stages))
    return make_error(ErrorCode::invalid_input,
                      format("costs of {} stages, but the pipeline has {}", costs.stages.size(), stages));
  const auto is_time = [](double value) { return std::isfinite(value) && value >= 0; };
  bool good = is_time(costs.send);
  for (const StageCosts& c : costs.stages)
    good = good && is_time(c.forward) && is_time(c.backward_input) && is_time(c.backward_weight) && is_time(c.backward);
  if (!good) return make_error(ErrorCode::invalid_input, "a pipeline's costs must be finite and not negative");
  return {};
}

// What an operation hands on, by (is it a forward?, micro-batch, global stage that made it).
using Product = std::tuple<bool, int, int>;

class PipelineRun {
 public:
  PipelineRun(const Lists& lists, int vp, const PipelineCosts& costs)
      : lists_(lists), pp_(static_cast<int>(lists.size())), stages_(pp_ * vp), costs_(costs), next_(lists.size(), 0) {
    timeline_.ranks.resize(lists.size());
    for (std::size_t rank = 0; rank < lists.size(); ++rank) {
      timeline_.ranks[rank].reserve(lists[rank].size());
      for (const ScheduleOp& op : lists[rank]) micro_batches_ = std::max(micro_batches_, op.micro_batch + 1);
    }
    made_.assign(2 * static_cast<std::size_t>(micro_batches_) * static_cast<std::size_t>(stages_), not_made);
  }

  Result<PipelineTimeline> run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < lists_.size(); ++rank)
        while (run_next(rank)) moved = true;
    }
    for (std::size_t rank = 0; rank < lists_.size(); ++rank)
      if (next_[rank] < lists_[rank].size()) return deadlock(rank);
    finish();
    return std::move(timeline_);
  }

 private:
  int stage_of(std::size_t rank, const ScheduleOp& op) const {
    return stage_of_chunk(pp_, static_cast<int>(rank), op.chunk);
  }

  std::optional<Product> input_of(std::size_t rank, const ScheduleOp& op) const {
    const int stage = stage_of(rank, op);
    if (op.kind == Kind::forward && stage > 0) return Product{true, op.micro_batch, stage - 1};
    if ((op.kind == Kind::backward || op.kind == Kind::backward_input) && stage + 1 < stages_)
      return Product{false, op.micro_batch, stage + 1};
    return std::nullopt;
  }

  std::size_t index_of(const Product& product) const {
    const auto [forward, micro_batch, stage] = product;
    const auto row = static_cast<std::size_t>(forward ? micro_batch : micro_batch + micro_batches_);
    return row * static_cast<std::size_t>(stages_) + static_cast<std::size_t>(stage);
  }

  // False at the end of the list, and while the input is not there.
  bool run_next(std::size_t rank) {
    if (next_[rank] == lists_[rank].size()) return false;
    const ScheduleOp& op = lists_[rank][next_[rank]];
    std::vector<PipelineTimeline::Entry>& done = timeline_.ranks[rank];
    double start = done.empty() ? 0 : done.back().end;
    if (const auto input = input_of(rank, op)) {
      const double made = made_[index_of(*input)];
      if (made == not_made) return false;
      start = std::max(start, made + costs_.send);
    }
    const auto stage = static_cast<std::size_t>(stage_of(rank, op));
    const double end = start + cost_of(costs_.stages[costs_.stages.size() == 1 ? 0 : stage], op.kind);
    done.push_back({op, start, end});
    if (op.kind != Kind::backward_weight)
      made_[index_of({op.kind == Kind::forward, op.micro_batch, static_cast<int>(stage)})] = end;
    ++next_[rank];
    return true;
  }

  // Every rank that is not done stands at an operation that waits for another such rank, so the way from one to the
  // next comes back to where it was.
  Error deadlock(std::size_t rank) const {
    std::string text = format("pipeline schedule: rank {} can never run {}", rank, to_string(standing_at(rank)));
    std::set<std::size_t> seen;
    while (seen.insert(rank).second) {
      const auto [forward, micro_batch, stage] = *input_of(rank, standing_at(rank));
      const auto other = static_cast<std::size_t>(stage % pp_);
      ScheduleOp wanted{Kind::forward, micro_batch, stage / pp_};
      for (const ScheduleOp& op : lists_[other])  // a backward, or only its input half?
        if (!forward && op.micro_batch == micro_batch && op.chunk == wanted.chunk &&
            (op.kind == Kind::backward || op.kind == Kind::backward_input))
          wanted.kind = op.kind;
      text += format("; {} on rank {} waits for {} on rank {}", to_string(standing_at(rank)), rank, to_string(wanted),
                     other);
      if (wanted != standing_at(other)) text += format(", which comes after {} there", to_string(standing_at(other)));
      rank = other;
    }
    return make_error(ErrorCode::internal, text);
  }
  const ScheduleOp& standing_at(std::size_t rank) const { return lists_[rank][next_[rank]]; }

  void finish() {
    double busy = 0;
    for (const auto& entries : timeline_.ranks)
      for (const PipelineTimeline::Entry& entry : entries) {
        busy += entry.end - entry.start;
        timeline_.makespan = std::max(timeline_.makespan, entry.end);
      }
    if (timeline_.makespan > 0) timeline_.bubble = std::max(0.0, 1 - busy / (pp_ * timeline_.makespan));
  }

  const Lists& lists_;
  static constexpr double not_made = -1;
  const int pp_, stages_;
  int micro_batches_ = 0;
  const PipelineCosts& costs_;
  std::vector<std::size_t> next_;  // per rank, into its list
  std::vector<double> made_;       // when, by index_of
  PipelineTimeline timeline_;
};

// Each list alone: complete, in order, and of the same micro-batches on every chunk of every rank.
Result<std::vector<int>> check_lists(const Lists& ranks, int vp) {
  std::vector<int> slots;
  std::vector<char> micro_batches;  // of chunk 0 of rank 0: whether it runs them
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const auto wrong = [&](const std::string& why) {
      return make_error(ErrorCode::internal, format("pipeline schedule: rank {}: {}", rank, why));
    };
    std::vector<std::vector<char>> of_chunk(static_cast<std::size_t>(vp));
    for (const ScheduleOp& op : ranks[rank]) {
      if (op.chunk < 0 || op.chunk >= vp || op.micro_batch < 0)
        return wrong(format("{} has chunk {} of {}", to_string(op), op.chunk, vp));
      if (op.kind != Kind::forward) continue;
      std::vector<char>& found = of_chunk[static_cast<std::size_t>(op.chunk)];
      const auto index = static_cast<std::size_t>(op.micro_batch);
      if (found.size() <= index) found.resize(index + 1, 0);
      found[index] = 1;
    }
    if (rank == 0) micro_batches = of_chunk[0];
    const auto count = [](const std::vector<char>& found) { return std::count(found.begin(), found.end(), 1); };
    for (const std::vector<char>& found : of_chunk)
      if (found != micro_batches)
        return wrong(format("a chunk runs {} micro-batches, chunk 0 of rank 0 runs {} or others", count(found),
                            count(micro_batches)));
    const auto needed = schedule_slots(ranks[rank]);
    if (!needed.ok()) return needed.error().with_context(format("rank {}", rank));
    slots.push_back(*needed);
  }
  return slots;
}
}  // namespace

Result<PipelineTimeline> run_pipeline(const Lists& ranks, int vp, const PipelineCosts& costs) {
  if (ranks.empty() || vp < 1)
    return make_error(ErrorCode::invalid_input, format("a pipeline of {} ranks and vp = {}", ranks.size(), vp));
  LH_CHECK(check_costs(costs, static_cast<int>(ranks.size()) * vp));
  LH_TRY(std::vector<int> slots, check_lists(ranks, vp));
  LH_TRY(PipelineTimeline timeline, PipelineRun(ranks, vp, costs).run());
  timeline.slots = std::move(slots);
  return timeline;
}

}  // namespace longhaul
