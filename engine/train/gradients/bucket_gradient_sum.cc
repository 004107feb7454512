#include "engine/train/gradients/bucket_gradient_sum.h"

#include <algorithm>

#include "contracts/plan/units_at_once.h"
#include "engine/core/tensor/transfer.h"
#include "engine/ops/pointwise/elementwise.h"

namespace longhaul {
namespace {

// One that is written (a block and its experts: two), one on its way, and those of the two ends of the model, which a
// tied embedding keeps open.
constexpr std::size_t buckets_max = 4, buckets_max_experts = 6;
// One on its way and one behind it: what contracts/plan/memory_plan.cc counts.

std::vector<std::vector<FlatRange>> gaps_of(const ParameterLayout& layout) {
  std::vector<std::vector<FlatRange>> gaps;
  auto p = layout.parameters().begin();
  for (const ShardUnit& unit : layout.units()) {
    std::vector<FlatRange> here;
    std::int64_t at = unit.flat.begin;
    for (; p != layout.parameters().end() && p->begin < unit.flat.end; ++p) {
      if (p->begin > at) here.push_back({at - unit.flat.begin, p->begin - unit.flat.begin});
      at = p->end;
    }
    if (unit.flat.end > at) here.push_back({at - unit.flat.begin, unit.flat.size()});
    gaps.push_back(std::move(here));
  }
  return gaps;
}

}  // namespace

BucketGradientSum::BucketGradientSum(const ParameterLayout& layout, Mesh& mesh, ContributionGuard& guard,
                                     const GradientSumOptions& options, MemoryAccount* account)
    : layout_(layout),
      mesh_(mesh),
      guard_(guard),
      options_(options),
      progress_(layout),
      large_(large_units(layout.units())),
      gaps_(gaps_of(layout)),
      account_(account),
      owned_(DType::f32, Shape{layout.owned().size()}, account) {
  for (const ShardUnit& unit : layout.units()) {
    largest_ = std::max(largest_, unit.flat.size());
    largest_share_ = std::max(largest_share_, unit.owned().size());
  }
  const bool experts = std::ranges::any_of(layout.units(), [](const ShardUnit& unit) { return unit.experts; });
  const std::size_t planned = std::min(experts ? buckets_max_experts : buckets_max, layout.units().size());
  while (buckets_.size() < planned) add_bucket();
}

BucketGradientSum::Bucket& BucketGradientSum::add_bucket() {
  Bucket& bucket = buckets_.emplace_back();
  bucket.gradient = Tensor(DType::f32, Shape{largest_}, account_);
  bucket.share = Tensor(DType::f32, Shape{largest_share_}, account_);
  return bucket;
}

void BucketGradientSum::begin(const ComputeContext& context, int) {
  context_ = &context;
  fill(context, owned_, 0.0F);
}

GradientTarget BucketGradientSum::target(const ComputeContext& context, int) {
  context_ = &context;
  GradientTarget target = located();
  target.ready = [this](std::int64_t begin, std::int64_t end) {
    for (const int unit : progress_.ready(begin, end)) reduce(unit);
    poll();
  };
  return target;
}

GradientTarget BucketGradientSum::scratch(const ComputeContext& context) {
  context_ = &context;
  GradientTarget target = located();
  target.ready = [this](std::int64_t begin, std::int64_t end) {
    for (const int unit : progress_.ready(begin, end)) bucket_of(unit).unit = -1;
  };
  return target;
}

GradientTarget BucketGradientSum::located() {
  progress_.begin();
  GradientTarget target;
  target.overwrite = true;
  target.locate = [this](std::int64_t begin) {
    const std::vector<ShardUnit>& units = layout_.units();
    const auto after = std::upper_bound(units.begin(), units.end(), begin,
                                        [](std::int64_t at, const ShardUnit& unit) { return at < unit.flat.begin; });
    const int unit = static_cast<int>(after - units.begin()) - 1;
    return bucket_of(unit).gradient.span<float>().data() + (begin - units[static_cast<std::size_t>(unit)].flat.begin);
  };
  return target;
}

BucketGradientSum::Bucket& BucketGradientSum::bucket_of(int unit) {
  for (Bucket& bucket : buckets_)
    if (bucket.unit == unit && !bucket.complete) return bucket;
  Bucket& free = free_bucket();
  free.unit = unit, free.complete = false;
  for (const FlatRange& gap : gaps_[static_cast<std::size_t>(unit)])
    fill(*context_, part_of(free.gradient.span<float>(), gap), 0.0F);
  return free;
}

BucketGradientSum::Bucket& BucketGradientSum::free_bucket() {
  const auto is_free = [](const Bucket& bucket) { return bucket.unit < 0; };
  auto free = std::ranges::find_if(buckets_, is_free);
  if (free == buckets_.end() && !order_.empty()) {
    collect(*order_.front());
    free = std::ranges::find_if(buckets_, is_free);
  }
  return free == buckets_.end() ? add_bucket() : *free;
}

void BucketGradientSum::reduce(int unit) {
  Bucket& bucket = bucket_of(unit);
  bucket.complete = true;
  make_room(unit);
  order_.push_back(&bucket);
  const ShardUnit& shape = layout_.units()[static_cast<std::size_t>(unit)];
  const auto sum = bucket.gradient.span<float>().first(static_cast<std::size_t>(shape.flat.size()));
  const auto share = bucket.share.span<float>().first(static_cast<std::size_t>(shape.owned().size()));
  if (!status_.ok()) return;
  if (Communicator* shard = mesh_.shard_communicator(shape.experts))
    bucket.pending =
        shard->reduce_scatter_sum(sum, share, guard_.take(*shard, CollectiveKind::reduce_scatter_sum, sum));
  else
    copy_within(*context_, sum, share);
  if (!options_.overlap) collect(bucket);
}

void BucketGradientSum::make_room(int unit) {
  const auto pending = [](const Bucket* bucket) { return bucket->pending.has_value(); };
  while (std::ranges::count_if(order_, pending) >= sums_at_once) collect(*order_.front());
  if (large_[static_cast<std::size_t>(unit)] && options_.before_large) options_.before_large();
}

void BucketGradientSum::settle_large() {
  const auto is_large = [this](const Bucket* bucket) {
    return bucket->pending && large_[static_cast<std::size_t>(bucket->unit)];
  };
  while (std::ranges::any_of(order_, is_large)) collect(*order_.front());
}

Communicator* BucketGradientSum::communicator_of(const Bucket& bucket) const {
  return mesh_.shard_communicator(layout_.units()[static_cast<std::size_t>(bucket.unit)].experts);
}

void BucketGradientSum::collect(Bucket& bucket) {
  if (bucket.pending) {
    Request started = std::move(*bucket.pending);
    bucket.pending.reset();
    if (status_.ok()) status_ = communicator_of(bucket)->wait(std::move(started), mesh_.deadline_ms());
  }
  const PackedRanges::Piece& piece = layout_.owned().pieces()[static_cast<std::size_t>(bucket.unit)];
  const std::span<float> mine = part_of(owned_.span<float>(), piece.packed());
  if (status_.ok()) axpy(*context_, 1.0F, bucket.share.span<float>().first(mine.size()), mine);
  bucket.unit = -1, bucket.complete = false;
  std::erase(order_, &bucket);
}

void BucketGradientSum::poll() {
  for (Bucket* bucket : order_) {
    if (!bucket->pending || !status_.ok()) continue;
    const Result<bool> done = communicator_of(*bucket)->test(*bucket->pending);
    if (!done.ok()) status_ = done.error();
    if (!done.ok() || *done) bucket->pending.reset();
  }
}

Result<std::span<float>> BucketGradientSum::finish(const ComputeContext&) {
  while (!order_.empty()) collect(*order_.front());
  LH_CHECK(status_);
  LH_CHECK(sum_over_replicates(layout_, mesh_, guard_, owned_.span<float>()));
  return owned_.span<float>();
}

}  // namespace longhaul
