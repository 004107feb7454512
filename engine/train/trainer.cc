#include "engine/train/trainer.h"

#include <cmath>
#include <numeric>

#include "base/text.h"
#include "engine/comm/tree_sum.h"
#include "engine/ops/elementwise.h"
#include "engine/train/lr_schedule.h"

namespace longhaul {

Status check_batch_sizes(std::int64_t micro_batch_size, std::int64_t global_batch_size, int dp) {
  if (global_batch_size % (micro_batch_size * dp) == 0) return {};
  const std::int64_t unit = micro_batch_size * dp;
  const std::int64_t below = global_batch_size / unit * unit;
  return make_error(ErrorCode::invalid_input,
                    format("global_batch_size = {} is not a multiple of micro_batch_size ({}) * dp ({}) = {}",
                           global_batch_size, micro_batch_size, dp, unit),
                    below > 0 ? format("use {} or {}", below, below + unit) : format("use {}", unit));
}

namespace {
int local_micro_batches(const TrainerOptions& options, const Mesh& mesh) {
  return static_cast<int>(options.global_batch_size / options.micro_batch_size / mesh.dims().dp());
}
std::vector<ScheduleOp> schedule_of(const TrainerOptions& options, const Mesh& mesh) {
  return schedule_1f1b(mesh.dims().pp, mesh.at().pp, local_micro_batches(options, mesh));
}
// Micro-batches that meet in an expert are kept apart where the order of the sum matters.
int expert_parts(const TrainerOptions& options, const Mesh& mesh) {
  return options.deterministic ? expert_dims_of(mesh.dims())->batches : 1;
}
std::int64_t gradient_size(const ParameterLayout& layout, int parts) {
  return layout.flat_size() + (parts - 1) * layout.expert_size();
}
}  // namespace

int training_slots(const TrainerOptions& options, const Mesh& mesh) {
  const auto slots = schedule_slots(schedule_of(options, mesh));
  LH_ASSERT(slots.ok() && *slots > 0, "schedule of the trainer");
  return *slots;
}

Trainer::Trainer(const ComputeContext& context, Mesh& mesh, ParameterStore& store, Llama& model, Objective& objective,
                 BatchSource& source, const TrainerOptions& options, MemoryAccount* account)
    : context_(context),
      mesh_(mesh),
      store_(store),
      model_(model),
      objective_(objective),
      source_(source),
      options_(options),
      micro_batches_(local_micro_batches(options, mesh)),
      schedule_(schedule_of(options, mesh)),
      slots_(training_slots(options, mesh)),
      expert_stride_(expert_parts(options, mesh) > 1 ? store.layout().expert_size() : 0),
      optimizer_(store.layout(), account),
      tree_(gradient_size(store.layout(), expert_parts(options, mesh)), micro_batches_, options.deterministic,
            account) {
  batches_.resize(static_cast<std::size_t>(micro_batches_));
}

// The ranks that compute together go on together or not at all.
Status Trainer::fill_step() {
  const std::int64_t first = mesh_.data().rank() * micro_batches_;
  Status filled;
  for (int i = 0; i < micro_batches_ && filled.ok(); ++i)
    filled = fill(source_, progress_.consumed_samples + (first + i) * options_.micro_batch_size,
                  options_.micro_batch_size, batches_[static_cast<std::size_t>(i)]);
  return mesh_.whole().agree(filled);
}

Status Trainer::fill(BatchSource& source, std::int64_t first, std::int64_t count, BatchStorage& batch) {
  LH_CHECK(source.fill(first, count, batch));
  return model_.check(batch.view());
}

Result<std::span<float>> Trainer::accumulate(std::vector<ObjectiveSums>& sums) {
  LH_CHECK(fill_step());
  tree_.begin();
  for (const ScheduleOp& op : schedule_) {
    const int slot = op.micro_batch % slots_;
    const BatchStorage& batch = batches_[static_cast<std::size_t>(op.micro_batch)];
    if (op.kind == ScheduleOp::Kind::forward) {
      if (on_micro_batch) on_micro_batch(progress_.step + 1, op.micro_batch);
      objective_.forward(context_, model_, slot, batch);
    } else {
      GradientTarget target = tree_.target();
      target.expert_stride = expert_stride_;
      sums.push_back(objective_.backward(context_, model_, slot, batch, target));
      tree_.add(context_);
    }
    LH_CHECK(model_.status());
  }
  model_.finish_sends();
  LH_CHECK(model_.status());
  return join_experts(tree_.finish(context_));
}

// Each part is the sum over one replica's micro-batches; neighbouring replicas are the tree's next branches.
std::span<float> Trainer::join_experts(std::span<float> gradient) {
  const ParameterLayout& layout = store_.layout();
  const auto size = static_cast<std::size_t>(layout.expert_size()), flat = static_cast<std::size_t>(layout.flat_size());
  std::vector<const float*> parts;
  for (std::size_t at = flat - size; size > 0 && at < gradient.size(); at += size) parts.push_back(&gradient[at]);
  if (parts.size() > 1) tree_sum(parts, gradient.subspan(flat - size, size));
  return gradient.first(flat);
}

// What several ranks of a replica have a part of.
Status Trainer::sum_over_replica(std::span<float> gradient) {
  const auto [tied_begin, tied_end] = model_.tied_gradient();
  LH_CHECK(mesh_.pipeline_ends().sum_along_tree(
      gradient.subspan(static_cast<std::size_t>(tied_begin), static_cast<std::size_t>(tied_end - tied_begin))));
  if (const FlatSection& section = store_.layout().sections().back(); section.experts)
    LH_CHECK(mesh_.expert_copies().sum_along_tree(gradient.subspan(static_cast<std::size_t>(section.range.begin),
                                                                   static_cast<std::size_t>(section.range.size()))));
  const auto ranges = model_.partial_gradients();
  if (ranges.empty()) return {};
  std::vector<float> parts;
  for (const auto& [begin, end] : ranges) parts.insert(parts.end(), gradient.begin() + begin, gradient.begin() + end);
  LH_CHECK(mesh_.tensor().sum_along_tree(parts));
  auto part = parts.begin();
  for (const auto& [begin, end] : ranges) {
    std::copy(part, part + (end - begin), gradient.begin() + begin);
    part += end - begin;
  }
  return {};
}

namespace {
std::span<float> part_of(std::span<float> flat, FlatRange range) {
  return flat.subspan(static_cast<std::size_t>(range.begin), static_cast<std::size_t>(range.size()));
}
}  // namespace

// Without ZeRO over the replicas first: the order in which micro-batches are dealt to them changes no bit. With it the
// shares of two ranks of a replica need not hold the same parameters, so the replica comes first.
Result<std::span<float>> Trainer::sum_gradient(std::span<float> gradient) {
  const ParameterLayout& layout = store_.layout();
  if (mesh_.dims().zero == 0) {
    for (const FlatSection& section : layout.sections())
      LH_CHECK((section.experts ? mesh_.expert_data() : mesh_.data()).sum_along_tree(part_of(gradient, section.range)));
    LH_CHECK(sum_over_replica(gradient));
    return gradient;
  }
  LH_CHECK(sum_over_replica(gradient));
  owned_.resize(static_cast<std::size_t>(layout.owned_size()));
  for (const FlatSection& section : layout.sections()) {
    const std::span<float> owned = part_of(owned_, {section.owned_at, section.owned_at + section.owned.size()});
    CollectiveGroup& shard = section.experts ? mesh_.expert_shard() : mesh_.shard();
    CollectiveGroup& replicates = section.experts ? mesh_.expert_replicates() : mesh_.replicates();
    LH_CHECK(shard.reduce_scatter(part_of(gradient, section.range), owned));
    LH_CHECK(replicates.sum_along_tree(owned));
  }
  return std::span<float>(owned_);
}

// ZeRO: each rank has updated its share of the weights; now all have all.
Status Trainer::share_weights() {
  if (mesh_.dims().zero == 0) return {};
  const std::span<float> masters = store_.masters();
  for (const FlatSection& section : store_.layout().sections()) {
    const std::span<const float> mine = part_of(masters, section.owned);
    owned_.assign(mine.begin(), mine.end());
    CollectiveGroup& shard = section.experts ? mesh_.expert_shard() : mesh_.shard();
    LH_CHECK(shard.all_gather(std::span<const float>(owned_), part_of(masters, section.range)));
  }
  store_.refresh_compute_copy(context_);
  return {};
}

// Of every weight once. `gradient`: of what is owned.
Result<double> Trainer::gradient_norm(std::span<const float> gradient) {
  CollectiveGroup& world = mesh_.world();
  if (mesh_.dims().zero == 0 && mesh_.whole().size() == 1) return std::sqrt(sum_of_squares(context_, gradient));
  const ParameterLayout& layout = store_.layout();
  double mine = 0;
  for (const FlatParameter& p : layout.parameters()) {
    const FlatSection& section = layout.section_of(p);
    const FlatRange here = intersection({p.begin, p.end}, section.owned);
    if (here.size() == 0 || !layout.is_counted_here(p)) continue;
    mine += sum_of_squares(
        context_, gradient.subspan(static_cast<std::size_t>(section.owned_at + here.begin - section.owned.begin),
                                   static_cast<std::size_t>(here.size())));
  }
  std::vector<double> all(static_cast<std::size_t>(world.size()));
  LH_CHECK(world.all_gather(std::span<const double>(&mine, 1), all));
  double sum = 0;
  for (const double of_rank : all) sum += of_rank;
  return std::sqrt(sum);
}

Result<ObjectiveSums> Trainer::sum_over_group(const std::vector<ObjectiveSums>& mine, std::int64_t total) {
  constexpr std::size_t fields = 5;
  const std::size_t per_rank =
      static_cast<std::size_t>((total + mesh_.data().size() - 1) / mesh_.data().size()) * fields;
  std::vector<double> packed(per_rank, 0.0), all(per_rank * static_cast<std::size_t>(mesh_.data().size()));
  for (std::size_t i = 0; i < mine.size(); ++i) {
    const double values[fields] = {mine[i].loss, mine[i].count, mine[i].tokens, mine[i].extra[0], mine[i].extra[1]};
    std::copy(values, values + fields, packed.begin() + static_cast<std::ptrdiff_t>(i * fields));
  }
  LH_CHECK(mesh_.data().all_gather(std::span<const double>(packed), all));
  // The last stage of the pipeline knows the losses.
  if (const auto stages = static_cast<std::size_t>(mesh_.pipeline().size()); stages > 1) {
    std::vector<double> of_stages(all.size() * stages);
    LH_CHECK(mesh_.pipeline().all_gather(std::span<const double>(all), of_stages));
    std::copy(of_stages.end() - static_cast<std::ptrdiff_t>(all.size()), of_stages.end(), all.begin());
  }
  // One after the other in the order of the global micro-batch index: no layout changes the sum. (Ranks that had fewer
  // micro-batches than others contribute zeros.)
  ObjectiveSums sums;
  for (std::size_t i = 0; i + fields <= all.size(); i += fields) {
    if (!std::isfinite(all[i]))
      return make_error(ErrorCode::internal, format("the loss of micro-batch {} is {}", i / fields, all[i]),
                        "lower the learning rate, or look at the data of this step");
    sums.loss += all[i], sums.count += all[i + 1], sums.tokens += all[i + 2];
    sums.extra[0] += all[i + 3], sums.extra[1] += all[i + 4];
  }
  return sums;
}

Result<StepReport> Trainer::step() {
  const std::string where = format("step {}", progress_.step + 1);
  std::vector<ObjectiveSums> mine;
  // A rank that cannot go on (unreadable data) takes the others with it instead of leaving them waiting.
  auto gradient = accumulate(mine);
  LH_CHECK(group().agree(gradient.ok() ? Status() : Status(gradient.error())).with_context(where));
  LH_TRY(const ObjectiveSums sums,
         sum_over_group(mine, static_cast<std::int64_t>(micro_batches_) * mesh_.data().size()).with_context(where));
  LH_TRY(const std::span<float> summed, sum_gradient(*gradient).with_context(where));
  if (!(sums.count > 0))
    return make_error(ErrorCode::invalid_input, where + ": the global batch has nothing to predict");

  StepReport report;
  report.step = progress_.step + 1;
  report.loss = sums.loss / sums.count;
  report.tokens = sums.tokens;
  for (int i = 0; i < 2; ++i) report.extra[i] = sums.extra[i] / sums.count;
  LH_TRY(const double norm, gradient_norm(summed).with_context(where));
  report.grad_norm = norm / sums.count;
  report.lr = learning_rate(options_.optimizer, report.step, options_.steps);
  if (!std::isfinite(report.grad_norm))
    return make_error(ErrorCode::internal, format("{}: the gradient's norm is {}", where, report.grad_norm),
                      "lower the learning rate, raise the warm-up, or start again from the last checkpoint");
  const float scale =
      static_cast<float>(static_cast<double>(clip_scale(report.grad_norm, options_.optimizer.clip_grad)) / sums.count);
  optimizer_.update(context_, store_, options_.optimizer, report.lr, progress_.adam_step + 1, scale, summed);
  LH_CHECK(share_weights().with_context(where));
  LH_CHECK(end_step_of_experts(sums.count, report).with_context(where));
  progress_.step += 1, progress_.adam_step += 1;
  progress_.consumed_samples += options_.global_batch_size;
  return report;
}

// Counts and losses of the global batch; with them the selection's bias moves. Every stage learns those of all layers.
Status Trainer::end_step_of_experts(double count, StepReport& report) {
  MoeState* experts = model_.experts();
  if (!experts) return {};
  MoeTotals totals = experts->take_totals();
  LH_CHECK(mesh_.data().sum_along_tree(totals.values));
  LH_CHECK(mesh_.pipeline().sum_along_tree(totals.values));
  report.load = expert_load(totals);
  for (int layer = 0; layer < static_cast<int>(totals.layers); ++layer) {
    report.balance_loss += static_cast<double>(totals.balance_loss(layer)) / count;
    report.z_loss += static_cast<double>(totals.z_loss(layer)) / count;
    const std::int64_t bias = model_.router_bias_begin(layer);
    if (bias < 0 || experts->settings().balance != "bias") continue;
    moe_bias_update(static_cast<float>(experts->settings().bias_rate), totals.counts(layer),
                    part_of(store_.masters(), {bias, bias + totals.experts}));
  }
  return {};
}

Result<ObjectiveSums> Trainer::evaluate(BatchSource& source, std::int64_t count) {
  const std::int64_t size = options_.micro_batch_size;
  const std::int64_t total = (count + size - 1) / size;
  CollectiveGroup& data = mesh_.data();
  const std::int64_t per_rank = (total + data.size() - 1) / data.size();
  std::vector<ObjectiveSums> mine;
  // Replicas whose experts lie on each other compute as many micro-batches: one that has no more goes through its last.
  const bool together = expert_dims_of(mesh_.dims())->batches > 1;
  const std::int64_t first = data.rank() * per_rank;
  const auto run = [&]() -> Status {
    for (std::int64_t i = first; i < (together ? first + per_rank : std::min(total, first + per_rank)); ++i) {
      BatchStorage& batch = batches_.front();
      const std::int64_t index = std::min(i, total - 1);
      LH_CHECK(mesh_.whole().agree(fill(source, index * size, std::min(size, count - index * size), batch)));
      objective_.forward(context_, model_, 0, batch);
      const ObjectiveSums sums = objective_.evaluate(context_, model_, 0, batch);
      if (i < total) mine.push_back(sums);
      LH_CHECK(model_.status());
      if (on_micro_batch) on_micro_batch(progress_.step, static_cast<int>(i));
    }
    model_.finish_sends();
    return model_.status();
  };
  if (MoeState* experts = model_.experts()) experts->evaluates = true;
  const Status done = run();
  if (MoeState* experts = model_.experts()) experts->evaluates = false;
  LH_CHECK(group().agree(done).with_context("evaluation"));
  return sum_over_group(mine, per_rank * data.size()).with_context("evaluation");
}

}  // namespace longhaul
