#include "engine/train/trainer.h"

#include <cmath>

#include "base/text.h"
#include "engine/ops/elementwise.h"
#include "engine/train/lr_schedule.h"

namespace longhaul {

Status check_batch_sizes(std::int64_t micro_batch_size, std::int64_t global_batch_size, int ranks) {
  if (global_batch_size % (micro_batch_size * ranks) == 0) return {};
  const std::int64_t unit = micro_batch_size * ranks;
  const std::int64_t below = global_batch_size / unit * unit;
  return make_error(ErrorCode::invalid_input,
                    format("global_batch_size = {} is not a multiple of micro_batch_size ({}) * ranks ({}) = {}",
                           global_batch_size, micro_batch_size, ranks, unit),
                    below > 0 ? format("use {} or {}", below, below + unit) : format("use {}", unit));
}

namespace {
int local_micro_batches(const TrainerOptions& options, const CollectiveGroup& group) {
  return static_cast<int>(options.global_batch_size / options.micro_batch_size / group.size());
}
}  // namespace

Trainer::Trainer(const ComputeContext& context, CollectiveGroup& group, ParameterStore& store, Llama& model,
                 Objective& objective, BatchSource& source, const TrainerOptions& options, MemoryAccount* account)
    : context_(context),
      group_(group),
      store_(store),
      model_(model),
      objective_(objective),
      source_(source),
      options_(options),
      micro_batches_(local_micro_batches(options, group)),
      schedule_(schedule_1f1b(1, 0, micro_batches_)),
      optimizer_(store.layout(), account),
      tree_(store.layout().flat_size(), micro_batches_, options.deterministic, account) {
  const auto slots = schedule_slots(schedule_);
  LH_ASSERT(slots.ok() && micro_batches_ > 0, "schedule of the trainer");
  batches_.resize(static_cast<std::size_t>(*slots));
}

Result<std::span<float>> Trainer::accumulate(std::vector<ObjectiveSums>& sums) {
  const std::int64_t first = group_.rank() * micro_batches_;
  tree_.begin();
  for (const ScheduleOp& op : schedule_) {
    const int slot = op.micro_batch % static_cast<int>(batches_.size());
    BatchStorage& batch = batches_[static_cast<std::size_t>(slot)];
    if (op.kind == ScheduleOp::Kind::forward) {
      if (on_micro_batch) on_micro_batch(progress_.step + 1, op.micro_batch);
      const std::int64_t sample = progress_.consumed_samples + (first + op.micro_batch) * options_.micro_batch_size;
      LH_CHECK(source_.fill(sample, options_.micro_batch_size, batch));
      LH_CHECK(model_.check(batch.view()));
      objective_.forward(context_, model_, slot, batch);
    } else {
      sums.push_back(objective_.backward(context_, model_, slot, batch, tree_.target()));
      tree_.add(context_);
    }
  }
  return tree_.finish(context_);
}

Result<ObjectiveSums> Trainer::sum_over_group(const std::vector<ObjectiveSums>& mine, std::int64_t total) {
  constexpr std::size_t fields = 5;
  const std::size_t per_rank = static_cast<std::size_t>((total + group_.size() - 1) / group_.size()) * fields;
  std::vector<double> packed(per_rank, 0.0), all(per_rank * static_cast<std::size_t>(group_.size()));
  for (std::size_t i = 0; i < mine.size(); ++i) {
    const double values[fields] = {mine[i].loss, mine[i].count, mine[i].tokens, mine[i].extra[0], mine[i].extra[1]};
    std::copy(values, values + fields, packed.begin() + static_cast<std::ptrdiff_t>(i * fields));
  }
  LH_CHECK(group_.all_gather(packed, all));
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
  LH_CHECK(group_.agree(gradient.ok() ? Status() : Status(gradient.error())).with_context(where));
  LH_TRY(const ObjectiveSums sums,
         sum_over_group(mine, static_cast<std::int64_t>(micro_batches_) * group_.size()).with_context(where));
  LH_CHECK(group_.sum_along_tree(*gradient).with_context(where));
  if (!(sums.count > 0))
    return make_error(ErrorCode::invalid_input, where + ": the global batch has nothing to predict");

  StepReport report;
  report.step = progress_.step + 1;
  report.loss = sums.loss / sums.count;
  report.tokens = sums.tokens;
  for (int i = 0; i < 2; ++i) report.extra[i] = sums.extra[i] / sums.count;
  report.grad_norm = std::sqrt(sum_of_squares(context_, *gradient)) / sums.count;
  report.lr = learning_rate(options_.optimizer, report.step, options_.steps);
  if (!std::isfinite(report.grad_norm))
    return make_error(ErrorCode::internal, format("{}: the gradient's norm is {}", where, report.grad_norm),
                      "lower the learning rate, raise the warm-up, or start again from the last checkpoint");
  const float scale =
      static_cast<float>(static_cast<double>(clip_scale(report.grad_norm, options_.optimizer.clip_grad)) / sums.count);
  optimizer_.update(context_, store_, options_.optimizer, report.lr, progress_.adam_step + 1, scale, *gradient);
  progress_.step += 1, progress_.adam_step += 1;
  progress_.consumed_samples += options_.global_batch_size;
  return report;
}

Result<ObjectiveSums> Trainer::evaluate(BatchSource& source, std::int64_t count) {
  const std::int64_t size = options_.micro_batch_size;
  const std::int64_t total = (count + size - 1) / size;
  const std::int64_t per_rank = (total + group_.size() - 1) / group_.size();
  std::vector<ObjectiveSums> mine;
  const auto run = [&]() -> Status {
    for (std::int64_t i = group_.rank() * per_rank; i < std::min(total, (group_.rank() + 1) * per_rank); ++i) {
      BatchStorage& batch = batches_.front();
      LH_CHECK(source.fill(i * size, std::min(size, count - i * size), batch));
      LH_CHECK(model_.check(batch.view()));
      objective_.forward(context_, model_, 0, batch);
      mine.push_back(objective_.evaluate(context_, model_, 0, batch));
      if (on_micro_batch) on_micro_batch(progress_.step, static_cast<int>(i));
    }
    return {};
  };
  LH_CHECK(group_.agree(run()).with_context("evaluation"));
  return sum_over_group(mine, per_rank * group_.size()).with_context("evaluation");
}

}  // namespace longhaul
