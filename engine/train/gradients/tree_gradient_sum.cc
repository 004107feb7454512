#include "engine/train/gradients/tree_gradient_sum.h"

#include <algorithm>

#include "contracts/plan/units_at_once.h"
#include "engine/comm/tree_sum.h"
#include "engine/core/tensor/transfer.h"
#include "engine/ops/pointwise/elementwise.h"

namespace longhaul {

namespace {

std::vector<std::int64_t> begins_of_experts(const ParameterLayout& layout, std::int64_t& size) {
  std::vector<std::int64_t> begins;
  size = 0;
  for (const ShardUnit& unit : layout.units()) {
    begins.push_back(size);
    if (unit.experts) size += unit.flat.size();
  }
  return begins;
}

}  // namespace

TreeGradientSum::TreeGradientSum(const ParameterLayout& layout, Mesh& mesh, ContributionGuard& guard,
                                 const GradientSumOptions& options, MemoryAccount* account)
    : layout_(layout),
      mesh_(mesh),
      guard_(guard),
      options_(options),
      batches_(options.deterministic ? expert_dims_of(mesh.dims())->batches : 1),
      expert_begin_(begins_of_experts(layout, expert_size_)),
      tree_(layout.flat_size() + (batches_ - 1) * expert_size_, options.micro_batches, options.deterministic, account),
      progress_(layout) {
  if (mesh.dims().zero > 0) owned_ = Tensor(DType::f32, Shape{layout.owned().size()}, account);
}

const ShardUnit& TreeGradientSum::unit_at(std::int64_t begin) const {
  return *std::ranges::find_if(layout_.units(), [&](const ShardUnit& unit) { return begin < unit.flat.end; });
}

FlatRange TreeGradientSum::part_of_batch(FlatRange part, int batch) const {
  if (batch == 0) return part;
  const ShardUnit& unit = unit_at(part.begin);
  const std::int64_t begin = layout_.flat_size() + (batch - 1) * expert_size_ +
                             expert_begin_[static_cast<std::size_t>(&unit - layout_.units().data())] + part.begin -
                             unit.flat.begin;
  return {begin, begin + part.size()};
}

void TreeGradientSum::join_batches(const ShardUnit& unit) {
  if (!unit.experts || batches_ == 1) return;
  const auto part = [&](int batch) { return part_of(tree_.sum(), part_of_batch(unit.flat, batch)); };
  if (context_->device() != nullptr) {  // the same tree, in the memory of the parts, which nobody reads again
    for (int apart = 1; apart < batches_; apart *= 2)
      for (int batch = 0; batch + apart < batches_; batch += 2 * apart)
        axpy(*context_, 1.0F, part(batch + apart), part(batch));
    return;
  }
  std::vector<const float*> parts;
  for (int batch = 0; batch < batches_; ++batch) parts.push_back(part(batch).data());
  tree_sum(parts, part(0));
}

GradientTarget TreeGradientSum::target(const ComputeContext& context, int index) {
  const bool last = index + 1 == micro_batches_;
  GradientTarget target = tree_.target(index);
  if (batches_ > 1)
    target.locate_batch = [this, flat = target.flat.data()](std::int64_t begin, int batch) {
      return flat + part_of_batch({begin, begin}, batch).begin;
    };
  if (last || options_.by_parts)
    target.ready = [this, &context, index](std::int64_t begin, std::int64_t end) {
      ready(context, {begin, end}, index);
    };
  return target;
}

GradientTarget TreeGradientSum::scratch(const ComputeContext&) {
  return tree_.target(0);
}

void TreeGradientSum::ready(const ComputeContext& context, FlatRange part, int index) {
  tree_.accept(context, part, index);
  if (batches_ > 1 && unit_at(part.begin).experts)
    for (int batch = 1; batch < batches_; ++batch) tree_.accept(context, part_of_batch(part, batch), index);
  if (index + 1 < micro_batches_) return;
  for (const int unit : progress_.ready(part.begin, part.end)) waiting_.push_back(unit);
  if (options_.overlap) start_next();
  poll();
}

void TreeGradientSum::done(const ComputeContext& context, int index) {
  if (index + 1 < micro_batches_ && !options_.by_parts) tree_.add(context, index);
}

void TreeGradientSum::start_next() {
  while (status_.ok() && !waiting_.empty() && std::ssize(under_way_) < sums_at_once) {
    const int unit = waiting_.front();
    waiting_.pop_front();
    start(unit);
  }
}

void TreeGradientSum::start(int unit) {
  const auto index = static_cast<std::size_t>(unit);
  const bool experts = layout_.units()[index].experts;
  join_batches(layout_.units()[index]);
  const std::span<float> sum = part_of(tree_.sum(), layout_.units()[index].flat);
  if (mesh_.dims().zero == 0) {
    if (Communicator* data = mesh_.data_communicator(experts))
      under_way_.push_back({unit, data->all_reduce_sum(sum, guard_.take(*data, CollectiveKind::all_reduce_sum, sum))});
    return;
  }
  const std::span<float> mine = part_of(owned_.span<float>(), layout_.owned().pieces()[index].packed());
  if (Communicator* shard = mesh_.shard_communicator(experts))
    under_way_.push_back(
        {unit, shard->reduce_scatter_sum(sum, mine, guard_.take(*shard, CollectiveKind::reduce_scatter_sum, sum))});
  else
    copy_within(*context_, sum, mine);
}

Communicator* TreeGradientSum::communicator_of(int unit) const {
  const bool experts = layout_.units()[static_cast<std::size_t>(unit)].experts;
  return mesh_.dims().zero == 0 ? mesh_.data_communicator(experts) : mesh_.shard_communicator(experts);
}

void TreeGradientSum::poll() {
  for (UnitSum& sum : under_way_) {
    if (!sum.pending || !status_.ok()) continue;
    const Result<bool> done = communicator_of(sum.unit)->test(*sum.pending);
    if (!done.ok()) status_ = done.error();
    if (!done.ok() || *done) sum.pending.reset();
  }
  while (!under_way_.empty() && !under_way_.front().pending) under_way_.pop_front();
  if (options_.overlap) start_next();
}

Result<std::span<float>> TreeGradientSum::finish(const ComputeContext&) {
  for (start_next(); !under_way_.empty(); start_next()) {
    UnitSum oldest = std::move(under_way_.front());
    under_way_.pop_front();
    if (oldest.pending && status_.ok())
      status_ = communicator_of(oldest.unit)->wait(std::move(*oldest.pending), mesh_.deadline_ms());
  }
  LH_CHECK(status_);
  if (mesh_.dims().zero == 0) return tree_.sum().first(static_cast<std::size_t>(layout_.flat_size()));
  LH_CHECK(sum_over_replicates(layout_, mesh_, guard_, owned_.span<float>()));
  return owned_.span<float>();
}

}  // namespace longhaul
