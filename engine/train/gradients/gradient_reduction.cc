#include "engine/train/gradients/gradient_reduction.h"

#include <cmath>
#include <numeric>

#include "engine/core/tensor/transfer.h"
#include "engine/ops/pointwise/elementwise.h"
#include "engine/train/gradients/replica_ranges.h"

namespace longhaul {

GradientReduction::GradientReduction(const ComputeContext& context, Mesh& mesh, ParameterStore& store,
                                     const GradientReductionOptions& options, MemoryAccounts* memory)
    : context_(context),
      mesh_(mesh),
      store_(store),
      options_(options),
      memory_(memory),
      guard_(options.check_contributions, context) {}

// Weights and gradients wait for each other's large units.
void GradientReduction::connect() {
  GradientSumOptions sum = options_.sum;
  sum.before_large = [this] { settle(); };
  sum_ = make_gradient_sum(store_.layout(), mesh_, guard_, sum, account_of(memory_, MemoryCategory::gradients));
  if (options_.adapted) options_.adapted->connect(mesh_, options_.overlap_weights, [this] { sum_->settle_large(); });
  store_.connect(mesh_, options_.overlap_weights, [this] { sum_->settle_large(); });
}

void GradientReduction::disconnect() {
  sum_.reset();
  store_.disconnect();
  if (options_.adapted) options_.adapted->disconnect();
}

void GradientReduction::settle() {
  if (store_.gather()) store_.gather()->finish();
  settle_adapted();
}

void GradientReduction::settle_adapted() {
  if (options_.adapted && options_.adapted->gather()) options_.adapted->gather()->finish();
}

Result<std::span<float>> GradientReduction::finish() {
  settle_adapted();  // nothing changes the base, which would
  return sum_->finish(context_);
}

void GradientReduction::begin(int micro_batches) {
  guard_.begin();
  sum_->begin(context_, micro_batches);
}

void GradientReduction::poll() {
  sum_->poll();
  if (store_.gather()) store_.gather()->poll();
  if (options_.adapted && options_.adapted->gather()) options_.adapted->gather()->poll();
}

// Of all but experts, which the ranks of a cp group may hold different ones of.
Status GradientReduction::sum_over_context(std::span<float> gradient) {
  const std::vector<ShardUnit>& units = store_.layout().units();
  const std::vector<PackedRanges::Piece>& pieces = store_.layout().owned().pieces();
  for (std::size_t unit = 0; unit < units.size();) {
    std::size_t end = unit;
    while (end < units.size() && !units[end].experts) ++end;
    if (end > unit)
      LH_CHECK(guard_.sum_along_tree(mesh_.context(),
                                     part_of(gradient, {pieces[unit].packed().begin, pieces[end - 1].packed().end})));
    unit = end + 1;
  }
  return {};
}

// What several ranks of a replica have a part of: with context parallelism everything (each has seen some of the
// tokens), a tied embedding at both ends of a pipeline, norms under sequence parallelism, what an adapter has whole of
// a matrix that is split. The ranks of each group hold the same units, so that their shares of them lie at the same
// places.
Status GradientReduction::sum_over_replica(const std::vector<Llama*>& stages, std::span<float> gradient) {
  const PackedRanges& owned = store_.layout().owned();
  LH_CHECK(sum_over_context(gradient));
  std::vector<FlatRange> split, split_experts;  // over the tp group, and over the etp group
  std::vector<std::span<float>> tied;
  const ReplicaRanges ranges = replica_ranges(stages, options_.adapted);
  for (const auto& [from, to] : ranges.tied)
    owned.for_each_in({from, to}, [&](FlatRange, FlatRange packed) { tied.push_back(part_of(gradient, packed)); });
  for (const auto& [from, to] : ranges.split)
    owned.for_each_in({from, to}, [&](FlatRange, FlatRange packed) { split.push_back(packed); });
  for (const auto& [from, to] : ranges.split_experts)
    owned.for_each_in({from, to}, [&](FlatRange, FlatRange packed) { split_experts.push_back(packed); });
  for (std::size_t unit = 0; unit < owned.pieces().size(); ++unit)
    if (store_.layout().units()[unit].experts)
      LH_CHECK(guard_.sum_along_tree(mesh_.expert_copies(), part_of(gradient, owned.pieces()[unit].packed())));
  for (const std::span<float> part : tied) LH_CHECK(guard_.sum_along_tree(mesh_.pipeline_ends(), part));
  LH_CHECK(sum_over(mesh_.tensor(), split, gradient));
  return sum_over(mesh_.expert_tensor(), split_experts, gradient);
}

// Many small ranges as one message.
Status GradientReduction::sum_over(CollectiveGroup& ranks, const std::vector<FlatRange>& ranges,
                                   std::span<float> gradient) {
  if (ranges.empty()) return {};
  std::int64_t elements = 0;
  for (const FlatRange& range : ranges) elements += range.size();
  Tensor together(DType::f32, Shape{elements}, account_of(memory_, MemoryCategory::communication));
  const std::span<float> parts = together.span<float>();
  const auto for_each = [&](const auto& copy) {
    std::int64_t at = 0;
    for (const FlatRange& range : ranges) {
      copy(part_of(gradient, range), part_of(parts, {at, at + range.size()}));
      at += range.size();
    }
  };
  for_each([&](std::span<float> whole, std::span<float> part) { copy_within(context_, whole, part); });
  LH_CHECK(guard_.sum_along_tree(ranks, parts));
  for_each([&](std::span<float> whole, std::span<float> part) { copy_within(context_, part, whole); });
  return {};
}

Result<double> GradientReduction::norm(std::span<const float> gradient) {
  CollectiveGroup& world = mesh_.world();
  if (mesh_.dims().zero == 0 && mesh_.whole().size() == 1) return std::sqrt(sum_of_squares(context_, gradient));
  std::vector<std::span<const float>> parts;
  for (const FlatParameter& p : store_.layout().parameters()) {
    if (!store_.layout().is_counted_here(p)) continue;
    store_.layout().owned().for_each_in(
        {p.begin, p.end}, [&](FlatRange, FlatRange packed) { parts.push_back(part_of(gradient, packed)); });
  }
  std::vector<double> sums(parts.size());
  sums_of_squares(context_, parts, sums);
  const double mine = std::accumulate(sums.begin(), sums.end(), 0.0);
  std::vector<double> all(static_cast<std::size_t>(world.size()));
  LH_CHECK(world.all_gather(std::span<const double>(&mine, 1), all));
  return std::sqrt(std::accumulate(all.begin(), all.end(), 0.0));
}

}  // namespace longhaul
