#include "engine/train/tree_gradient_sum.h"

namespace longhaul {

TreeGradientSum::TreeGradientSum(const ParameterLayout& layout, Mesh& mesh, const GradientSumOptions& options,
                                 MemoryAccount* account)
    : layout_(layout),
      mesh_(mesh),
      options_(options),
      tree_(layout.flat_size(), options.micro_batches, options.deterministic, account),
      progress_(layout),
      pending_(layout.units().size()) {
  if (mesh.dims().zero > 0) owned_ = Tensor(DType::f32, Shape{layout.owned().size()}, account);
}

GradientTarget TreeGradientSum::target(const ComputeContext& context, int index) {
  const bool last = index + 1 == micro_batches_;
  GradientTarget target = tree_.target(index);
  if (last || options_.by_parts)
    target.ready = [this, &context, index](std::int64_t begin, std::int64_t end) {
      ready(context, {begin, end}, index);
    };
  return target;
}

void TreeGradientSum::ready(const ComputeContext& context, FlatRange part, int index) {
  tree_.accept(context, part, index);
  if (index + 1 < micro_batches_) return;
  for (const int unit : progress_.ready(part.begin, part.end))
    if (options_.overlap) start(unit);
  poll();
}

void TreeGradientSum::done(const ComputeContext& context, int index) {
  if (index + 1 < micro_batches_ && !options_.by_parts) tree_.add(context, index);
}

void TreeGradientSum::start(int unit) {
  const auto index = static_cast<std::size_t>(unit);
  const std::span<float> sum = part_of(tree_.sum(), layout_.units()[index].flat);
  if (mesh_.dims().zero == 0) {
    if (Communicator* data = mesh_.data_communicator()) pending_[index] = data->all_reduce_sum(sum);
    return;
  }
  const std::span<float> mine = part_of(owned_.span<float>(), layout_.owned().pieces()[index].packed());
  if (Communicator* shard = mesh_.shard_communicator())
    pending_[index] = shard->reduce_scatter_sum(sum, mine);
  else
    std::copy(sum.begin(), sum.end(), mine.begin());
}

void TreeGradientSum::poll() {
  Communicator* communicator = mesh_.dims().zero == 0 ? mesh_.data_communicator() : mesh_.shard_communicator();
  for (std::optional<Request>& request : pending_) {
    if (!request || !status_.ok()) continue;
    const Result<bool> done = communicator->test(*request);
    if (!done.ok()) status_ = done.error();
    if (!done.ok() || *done) request.reset();
  }
}

Result<std::span<float>> TreeGradientSum::finish(const ComputeContext&) {
  if (!options_.overlap)
    for (std::size_t unit = 0; unit < pending_.size(); ++unit) start(static_cast<int>(unit));
  Communicator* communicator = mesh_.dims().zero == 0 ? mesh_.data_communicator() : mesh_.shard_communicator();
  for (std::optional<Request>& request : pending_) {
    if (!request) continue;
    Request started = std::move(*request);
    request.reset();
    if (status_.ok()) status_ = communicator->wait(std::move(started), mesh_.deadline_ms());
  }
  LH_CHECK(status_);
  if (mesh_.dims().zero == 0) return tree_.sum();
  LH_CHECK(mesh_.replicates().sum_along_tree(owned_.span<float>()));
  return owned_.span<float>();
}

}  // namespace longhaul
