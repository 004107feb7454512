#include "engine/train/step/trainer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/process/fault_point.h"
#include "base/text/text.h"
#include "contracts/plan/communication_plan.h"
#include "engine/core/tensor/transfer.h"
#include "engine/ops/pointwise/elementwise.h"
#include "engine/train/optimizer/expert_bias.h"
#include "engine/train/optimizer/lr_schedule.h"
#include "engine/train/step/replica_ranges.h"

namespace longhaul {

static_assert(loss_numbers == 4 + objective_extras);

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

int local_micro_batches(const TrainerOptions& options, const Mesh& mesh, std::int64_t batch_size) {
  return static_cast<int>(batch_size / options.micro_batch_size / mesh.dims().dp());
}

bool runs_apart(const TrainingSchedules& schedules) {
  return std::ranges::any_of(schedules.rbegin()->second,
                             [](const ScheduleOp& op) { return op.kind == ScheduleOp::Kind::backward_weight; });
}

GradientSumOptions gradient_options(const TrainerOptions& options, const Mesh& mesh,
                                    const TrainingSchedules& schedules) {
  GradientSumOptions sum;
  sum.micro_batches.clear();
  for (const auto& [count, schedule] : schedules) sum.micro_batches.push_back(count);
  sum.deterministic = options.deterministic;
  sum.by_parts = runs_apart(schedules) || mesh.dims().vp > 1;
  sum.overlap = options.overlap_gradients;
  return sum;
}

TrainingSchedules valid_schedules(const TrainerOptions& options, const Mesh& mesh) {
  auto schedules = training_schedules(options, mesh);
  LH_ASSERT(schedules.ok(), schedules.error().message());
  return std::move(schedules).value();
}

}  // namespace

Result<TrainingSchedules> training_schedules(const TrainerOptions& options, const Mesh& mesh) {
  TrainingSchedules schedules;
  for (const std::int64_t batch : batch_sizes(options.batch_rampup, options.global_batch_size)) {
    const int count = local_micro_batches(options, mesh, batch);
    LH_TRY(const PipelineScheduleSettings settings, schedule_settings(options.pipeline, mesh.dims(), count));
    LH_TRY(schedules[count], pipeline_schedule(settings, mesh.at().pp));
  }
  return schedules;
}

LlamaOptions stage_options(const TrainingSchedules& schedules, const TrainerOptions& trainer, Mesh& mesh, int chunk) {
  LlamaOptions options;
  options.slots = 0;
  for (const auto& [count, schedule] : schedules) {
    std::vector<ScheduleOp> own;
    std::ranges::copy_if(schedule, std::back_inserter(own), [&](const ScheduleOp& op) { return op.chunk == chunk; });
    const auto slots = schedule_slots(own);
    LH_ASSERT(slots.ok() && *slots > 0, "schedule of the trainer");
    options.slots = std::max(options.slots, *slots);
  }
  options.split_backward = runs_apart(schedules);
  options.chunk = chunk;
  options.overlap = trainer.overlap_pipeline;
  options.mesh = &mesh;
  return options;
}

Trainer::Trainer(const ComputeContext& context, Mesh& mesh, ParameterStore& store, std::vector<Llama*> stages,
                 Objective& objective, BatchSource& source, const TrainerOptions& options, MemoryAccounts* memory)
    : context_(context),
      mesh_(mesh),
      store_(store),
      stages_(std::move(stages)),
      objective_(objective),
      source_(source),
      options_(options),
      schedules_(valid_schedules(options, mesh)),
      optimizer_(store.layout(), options.optimizer, options.seed, account_of(memory, MemoryCategory::optimizer),
                 options.offloaded),
      guard_of_sums_(options.check_contributions, context),
      guard_(options.on_spike),
      memory_(memory),
      batch_bytes_(account_of(memory, MemoryCategory::batches)),
      message_bytes_(account_of(memory, MemoryCategory::communication)),
      expert_bytes_(account_of(memory, MemoryCategory::experts)),
      logit_bytes_(account_of(memory, MemoryCategory::logits)),
      scratch_bytes_(account_of(memory, MemoryCategory::scratch)) {
  batches_.resize(static_cast<std::size_t>(schedules_.rbegin()->first));
  for (int chunk = 0; chunk < mesh.dims().vp; ++chunk)
    slots_.push_back(stage_options(schedules_, options, mesh, chunk).slots);
  LH_ASSERT(stages_.size() == slots_.size(), std::to_string(stages_.size()));
  connect();
}

void Trainer::leave() {
  gradient_.reset();
  low_precision_ = low_precision_state();  // the models to come go on with it
  store_.disconnect();
  stages_.clear();
}

void Trainer::join(std::vector<Llama*> stages) {
  stages_ = std::move(stages);
  LH_ASSERT(stages_.size() == slots_.size(), std::to_string(stages_.size()));
  const Status restored = low_precision_.is_table() ? restore_low_precision(low_precision_) : Status();
  LH_ASSERT(restored.ok(), restored.error().message());
  connect();
}

// Weights and gradients wait for each other's large units.
void Trainer::connect() {
  GradientSumOptions sum = gradient_options(options_, mesh_, schedules_);
  sum.before_large = [this] { store_.settle(); };
  gradient_ =
      make_gradient_sum(store_.layout(), mesh_, guard_of_sums_, sum, account_of(memory_, MemoryCategory::gradients));
  store_.connect(mesh_, options_.overlap_weights, [this] { gradient_->settle_large(); });
}

std::int64_t Trainer::batch_size() const {
  return global_batch_size_at(options_.batch_rampup, options_.global_batch_size, progress_.consumed_samples);
}

// The ranks that compute together go on together or not at all.
Status Trainer::fill_step() {
  const std::int64_t first = mesh_.data().rank() * micro_batches_;
  source_.begin_step(progress_.step + 1, skipped_samples_);
  const std::int64_t begin = progress_.consumed_samples + skipped_samples_;
  Status filled;
  for (int i = 0; i < micro_batches_ && filled.ok(); ++i)
    filled = fill(source_, begin + (first + i) * options_.micro_batch_size, options_.micro_batch_size,
                  batches_[static_cast<std::size_t>(i)], true);
  return mesh_.whole().agree(filled);
}

Status Trainer::fill(BatchSource& source, std::int64_t first, std::int64_t count, BatchStorage& batch, bool training) {
  batch.first_sample = training ? first : -1;
  LH_CHECK(fill_shard(source, first, count, ContextShard(mesh_.dims().cp, mesh_.at().cp), batch));
  return stages_.front()->check(batch.view());
}

Status Trainer::status() const {
  for (const Llama* stage : stages_) LH_CHECK(stage->status());
  return {};
}

Status Trainer::run(const ScheduleOp& op, std::vector<ObjectiveSums>& sums, const Gradients& gradients) {
  using Kind = ScheduleOp::Kind;
  Llama& stage = *stages_[static_cast<std::size_t>(op.chunk)];
  // Each stage has its micro-batches in ascending order, so those alive are neighbours.
  const int slot = op.micro_batch % slots_[static_cast<std::size_t>(op.chunk)];
  const BatchStorage& batch = batches_[static_cast<std::size_t>(op.micro_batch)];
  const bool last_chunk = op.chunk + 1 == static_cast<int>(stages_.size());
  if (op.kind == Kind::forward) {
    if (on_micro_batch) on_micro_batch(progress_.step + 1, op.micro_batch);
    objective_.forward(context_, stage, slot, batch);
  } else if (op.kind == Kind::backward_weight) {
    stage.backward_weight(context_, slot, target_of_model(options_.adapted, gradients.target(op.micro_batch)));
  } else {
    const ObjectiveSums mine = objective_.backward(context_, stage, slot, batch,
                                                   target_of_model(options_.adapted, gradients.target(op.micro_batch)));
    if (last_chunk) sums.push_back(mine);
    if (gradients.done) gradients.done(op.micro_batch);
  }
  return stage.status();
}

// The message before an operation is received while the one before that runs.
void Trainer::expect(std::size_t op) {
  if (op >= schedule_.size() || schedule_[op].kind == ScheduleOp::Kind::backward_weight) return;
  const ScheduleOp& next = schedule_[op];
  stages_[static_cast<std::size_t>(next.chunk)]->expect(
      batches_[static_cast<std::size_t>(next.micro_batch)].view().tokens(), next.kind == ScheduleOp::Kind::forward);
}

void Trainer::poll() {
  gradient_->poll();
  store_.poll();
  for (Llama* stage : stages_) stage->poll();
}

Status Trainer::accumulate(std::vector<ObjectiveSums>& sums) {
  LH_CHECK(fill_step());
  for (Llama* stage : stages_)
    if (stage->low_precision()) stage->low_precision()->begin_step(progress_.step + 1, &context_);
  guard_of_sums_.begin();
  gradient_->begin(context_, micro_batches_);
  schedule_ = schedules_.at(micro_batches_);
  // The first micro-batch's is looked at where a neighbour has computed it as well.
  const std::optional<std::uint64_t> flip = gradient_flip();
  const bool looks = replays(progress_.step + 1) || flip;
  digest_.begin(flip);
  Gradients gradients;
  gradients.target = [this, looks](int micro_batch) {
    GradientTarget target = gradient_->target(context_, micro_batch);
    return looks && micro_batch == 0 ? digest_.watch(std::move(target)) : target;
  };
  gradients.done = [this](int micro_batch) { gradient_->done(context_, micro_batch); };
  LH_CHECK(run_schedule(sums, gradients));
  digest_of_first_ = digest_.value();
  return {};
}

Status Trainer::run_schedule(std::vector<ObjectiveSums>& sums, const Gradients& gradients) {
  expect(0);
  for (std::size_t op = 0; op < schedule_.size(); ++op) {
    expect(op + 1);
    if (auto fault = fault_here(FaultPoint::engine_backward)) return *fault;
    LH_CHECK(run(schedule_[op], sums, gradients));
  }
  count_memory();  // with the messages that are still on their way
  for (Llama* stage : stages_) stage->finish_sends();
  return status();
}

void Trainer::count_memory() {
  std::int64_t batches = objective_.bytes(), messages = 0, experts = 0;
  for (const BatchStorage& batch : batches_) batches += batch.bytes();
  for (const Llama* stage : stages_) messages += stage->message_bytes(), experts += stage->expert_bytes();
  constexpr int logits_slot = 2;  // engine/ops/loss/cross_entropy.h and vocab_parallel_loss.h
  const std::int64_t logits = context_.scratch_bytes(logits_slot);
  batch_bytes_.set(batches), message_bytes_.set(messages), expert_bytes_.set(experts);
  logit_bytes_.set(logits), scratch_bytes_.set(context_.scratch_bytes() - logits);
}

// Of all but experts, which the ranks of a cp group may hold different ones of.
Status Trainer::sum_over_context(std::span<float> gradient) {
  const std::vector<ShardUnit>& units = store_.layout().units();
  const std::vector<PackedRanges::Piece>& pieces = store_.layout().owned().pieces();
  for (std::size_t unit = 0; unit < units.size();) {
    std::size_t end = unit;
    while (end < units.size() && !units[end].experts) ++end;
    if (end > unit)
      LH_CHECK(guard_of_sums_.sum_along_tree(
          mesh_.context(), part_of(gradient, {pieces[unit].packed().begin, pieces[end - 1].packed().end})));
    unit = end + 1;
  }
  return {};
}

// What several ranks of a replica have a part of: with context parallelism everything (each has seen some of the
// tokens), a tied embedding at both ends of a pipeline, norms under sequence parallelism. The ranks of each group hold
// the same units, so that their shares of them lie at the same places.
Status Trainer::sum_over_replica(std::span<float> gradient) {
  const PackedRanges& owned = store_.layout().owned();
  LH_CHECK(sum_over_context(gradient));
  std::vector<FlatRange> split;  // over the tp group
  std::vector<std::span<float>> tied;
  const ReplicaRanges ranges = replica_ranges(stages_, options_.adapted);
  for (const auto& [from, to] : ranges.tied)
    owned.for_each_in({from, to}, [&](FlatRange, FlatRange packed) { tied.push_back(part_of(gradient, packed)); });
  for (const auto& [from, to] : ranges.split)
    owned.for_each_in({from, to}, [&](FlatRange, FlatRange packed) { split.push_back(packed); });
  for (std::size_t unit = 0; unit < owned.pieces().size(); ++unit)
    if (store_.layout().units()[unit].experts)
      LH_CHECK(guard_of_sums_.sum_along_tree(mesh_.expert_copies(), part_of(gradient, owned.pieces()[unit].packed())));
  for (const std::span<float> part : tied) LH_CHECK(guard_of_sums_.sum_along_tree(mesh_.pipeline_ends(), part));
  if (split.empty()) return {};
  std::int64_t elements = 0;
  for (const FlatRange& range : split) elements += range.size();
  Tensor together(DType::f32, Shape{elements}, account_of(memory_, MemoryCategory::communication));
  const std::span<float> parts = together.span<float>();
  const auto for_each = [&](const auto& copy) {
    std::int64_t at = 0;
    for (const FlatRange& range : split) {
      copy(part_of(gradient, range), part_of(parts, {at, at + range.size()}));
      at += range.size();
    }
  };
  for_each([&](std::span<float> whole, std::span<float> part) { copy_within(context_, whole, part); });
  LH_CHECK(guard_of_sums_.sum_along_tree(mesh_.tensor(), parts));
  for_each([&](std::span<float> whole, std::span<float> part) { copy_within(context_, part, whole); });
  return {};
}

// Of every weight once.
Result<double> Trainer::gradient_norm(std::span<const float> gradient) {
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

namespace {
// Of packed sums that begin with loss and count: the first whose loss is no number, or the one of the largest mean.
std::int64_t worst_micro_batch(std::span<const double> packed, std::size_t fields) {
  std::size_t worst = 0;
  double largest = -INFINITY;
  for (std::size_t i = 0; i + fields <= packed.size(); i += fields) {
    const double loss = packed[i], count = packed[i + 1];
    if (!std::isfinite(loss)) return static_cast<std::int64_t>(i / fields);
    if (count > 0 && loss / count > largest) largest = loss / count, worst = i / fields;
  }
  return static_cast<std::int64_t>(worst);
}
}  // namespace

Result<Trainer::GroupSums> Trainer::sum_over_group(const std::vector<ObjectiveSums>& mine, std::int64_t total) {
  constexpr std::size_t fields = loss_numbers;
  const std::size_t per_rank =
      static_cast<std::size_t>((total + mesh_.data().size() - 1) / mesh_.data().size()) * fields;
  std::vector<double> packed(per_rank, 0.0), all(per_rank * static_cast<std::size_t>(mesh_.data().size()));
  for (std::size_t i = 0; i < mine.size(); ++i) {
    double* values = packed.data() + i * fields;
    values[0] = mine[i].loss, values[1] = mine[i].count, values[2] = mine[i].tokens, values[3] = mine[i].computed;
    std::ranges::copy(mine[i].extra, values + 4);
  }
  LH_CHECK(mesh_.data().all_gather(std::span<const double>(packed), all));
  // The last stage of the pipeline knows the losses.
  if (const auto stages = static_cast<std::size_t>(mesh_.pipeline().size()); stages > 1) {
    std::vector<double> of_stages(all.size() * stages);
    LH_CHECK(mesh_.pipeline().all_gather(std::span<const double>(all), of_stages));
    std::copy(of_stages.end() - static_cast<std::ptrdiff_t>(all.size()), of_stages.end(), all.begin());
  }
  // Each rank of a cp group has the sums over its own tokens.
  if (const auto parts = static_cast<std::size_t>(mesh_.context().size()); parts > 1) {
    std::vector<double> of_parts(all.size() * parts);
    LH_CHECK(mesh_.context().all_gather(std::span<const double>(all), of_parts));
    for (std::size_t i = 0; i < all.size(); ++i)
      for (std::size_t part = 1; part < parts; ++part) of_parts[i] += of_parts[part * all.size() + i];
    std::copy_n(of_parts.begin(), all.size(), all.begin());
  }
  // One after the other in the order of the global micro-batch index: no layout changes the sum. (Ranks that had fewer
  // micro-batches than others contribute zeros.)
  GroupSums group;
  ObjectiveSums& sums = group.sums;
  group.worst = worst_micro_batch(all, fields);
  for (std::size_t i = 0; i + fields <= all.size(); i += fields) {
    sums.loss += all[i], sums.count += all[i + 1], sums.tokens += all[i + 2];
    sums.computed += all[i + 3];
    for (std::size_t k = 0; k < objective_extras; ++k) sums.extra[k] += all[i + 4 + k];
  }
  return group;
}

const PlannedPhase* Trainer::phase_at(std::int64_t step) const {
  for (const PlannedPhase& phase : options_.phases)
    if (step <= phase.last_step) return &phase;
  return options_.phases.empty() ? nullptr : &options_.phases.back();
}

double Trainer::learning_rate_at(std::int64_t step) const {
  OptimizerSettings settings = options_.optimizer;
  if (const PlannedPhase* phase = phase_at(step)) {
    const double ordered = ordered_lr_ > 0 && settings.lr > 0 ? ordered_lr_ / settings.lr : 1.0;
    return learning_rate(*phase, step) * ordered;
  }
  if (ordered_lr_ > 0) settings.lr = ordered_lr_;
  return learning_rate(settings, step, options_.steps);
}

Status Trainer::pass_over(StepReport& report, const GroupSums& group) {
  const SpikeSettings& policy = guard_.settings();
  const std::string what = format(
      "step {}: {} (loss {:.6g}, gradient norm {:.6g}, the {} micro-batch is {}, from sample {} on)", report.step,
      report.problem, report.loss, report.grad_norm, std::isfinite(report.loss) ? "worst" : "first such", group.worst,
      progress_.consumed_samples + skipped_samples_ + group.worst * options_.micro_batch_size);
  if (policy.action == "stop")
    return make_error(ErrorCode::internal, what,
                      "look at the data of this step, lower the learning rate or raise the warm-up; on_spike.action = "
                      "\"skip\" or \"rollback\" goes on");
  if (!guard_.spend(report.step))
    return make_error(ErrorCode::internal,
                      what + format("; more than {} such steps within {}", policy.budget, policy.budget_steps),
                      "lower the learning rate, or raise on_spike.budget");
  report.problem = what;
  report.end = policy.action == "skip" ? StepEnd::skipped : StepEnd::roll_back;
  return {};
}

Status Trainer::check_contributions(std::int64_t step) {
  LH_TRY(corruption_, guard_of_sums_.verify(mesh_.world(), step));
  if (!corruption_) return {};
  for (Llama* stage : stages_)
    if (stage->experts()) (void)stage->experts()->take_totals();  // of a step that does not count
  return corruption_error();
}

Status Trainer::corruption_error() {
  if (corruption_->rank == group().rank())
    return make_error(ErrorCode::corrupt, silent_corruption_words + corruption_->what,
                      "test this host's memory and GPU");
  return make_error(ErrorCode::aborted, format("rank {} left: {}", corruption_->rank, corruption_->what));
}

Status Trainer::end_step_of_experts(double count, StepReport& report) {
  if (!stages_.front()->experts()) return {};
  MoeTotals totals = stages_.front()->experts()->take_totals();
  for (std::size_t chunk = 1; chunk < stages_.size(); ++chunk) {
    const MoeTotals more = stages_[chunk]->experts()->take_totals();
    for (std::size_t i = 0; i < totals.values.size(); ++i) totals.values[i] += more.values[i];
  }
  LH_CHECK(mesh_.data().sum_along_tree(totals.values));
  LH_CHECK(mesh_.pipeline().sum_along_tree(totals.values));
  report.load = expert_load(totals);
  const MoeSettings& settings = stages_.front()->experts()->settings();
  for (int layer = 0; layer < static_cast<int>(totals.layers); ++layer) {
    report.balance_loss += static_cast<double>(totals.balance_loss(layer)) / count;
    report.z_loss += static_cast<double>(totals.z_loss(layer)) / count;
    if (settings.balance == "bias" && !options_.adapted)
      step_expert_bias(context_, store_, stages_, layer, static_cast<float>(settings.bias_rate), totals.counts(layer));
  }
  return {};
}

Status Trainer::end_step_of_low_precision(StepReport& report) {
  LowPrecisionState* const state = stages_.front()->low_precision();
  if (!state) return {};
  const bool measures = state->measures();
  LowPrecisionSeen seen = state->take_seen();
  for (std::size_t chunk = 1; chunk < stages_.size(); ++chunk) seen.merge(stages_[chunk]->low_precision()->take_seen());
  // Ranks in order, so that all of them make the same decisions.
  const std::vector<double> mine = seen.packed();
  std::vector<double> all(mine.size() * static_cast<std::size_t>(group().size()));
  LH_CHECK(group().all_gather(mine, all));
  const auto layers = static_cast<std::size_t>(state->layers());
  const auto of_rank = [&](std::size_t at) {
    return LowPrecisionSeen::from_packed(std::span(all).subspan(at, mine.size()), layers, measures);
  };
  LowPrecisionSeen merged = of_rank(0);
  for (std::size_t at = mine.size(); at < all.size(); at += mine.size()) merged.merge(of_rank(at));
  report.multiplies_low = state->device().multiplies();
  for (Llama* stage : stages_) {
    report.verdicts = stage->low_precision()->end_step(report.step, merged);
    stage->low_precision()->device().take_notes(report.low_precision_notes);
  }
  return {};
}

Value Trainer::low_precision_state() const {
  LowPrecisionState* const state = stages_.front()->low_precision();
  return state ? state->state() : Value();
}

Status Trainer::restore_low_precision(const Value& state) {
  for (Llama* stage : stages_)
    if (stage->low_precision()) LH_CHECK(stage->low_precision()->restore(state));
  return {};
}

Result<StepReport> Trainer::step() {
  const std::int64_t waited = mesh_.waited_ns() + agreed_ns_;
  const CommunicationTable before = mesh_.traffic();
  context_.set_between([this] { poll(); });
  Result<StepReport> report = do_step();
  context_.set_between({});
  if (!report.ok()) return report;
  report->waited_s = static_cast<double>(mesh_.waited_ns() + agreed_ns_ - waited) * 1e-9;
  report->traffic = mesh_.traffic() - before;
  return report;
}

Status Trainer::agreed(const Status& mine) {
  if (!mine.ok() && fails_alone && fails_alone(mine.error())) return mine;
  return agree(mine);
}

// The mesh does not count what is waited in the world's communicator, and here the fast ranks wait for the slow one.
Status Trainer::agree(const Status& mine) {
  const std::int64_t begun = clock_.monotonic_ns();
  Status all = group().agree(mine);
  agreed_ns_ += clock_.monotonic_ns() - begun;
  return all;
}

Result<StepReport> Trainer::do_step() {
  const std::string where = format("step {}", progress_.step + 1);
  corruption_.reset();
  const std::int64_t batch = batch_size();
  micro_batches_ = local_micro_batches(options_, mesh_, batch);
  std::vector<ObjectiveSums> mine;
  const bool replay = replays(progress_.step + 1);
  if (sound_step_ < 0) sound_step_ = progress_.step;  // what this process began with
  if (replay) LH_CHECK(agreed(replay_neighbour()).with_context(where));
  // A rank that cannot go on (unreadable data) takes the others with it instead of leaving them waiting.
  LH_CHECK(agreed(accumulate(mine)).with_context(where));
  if (!mine.empty() && fault_here(FaultPoint::engine_loss))
    mine.front().loss = std::numeric_limits<double>::quiet_NaN();
  // Before any other collective of these ranks: how many sums have not started yet differs from rank to rank.
  LH_TRY(const std::span<float> summed, gradient_->finish(context_).with_context(where));
  LH_TRY(const GroupSums group_sums,
         sum_over_group(mine, static_cast<std::int64_t>(micro_batches_) * mesh_.data().size()).with_context(where));
  LH_CHECK(sum_over_replica(summed).with_context(where));
  LH_CHECK(check_contributions(progress_.step + 1).with_context(where));
  if (replay) LH_CHECK(compare_replays(progress_.step + 1).with_context(where));
  const ObjectiveSums& sums = group_sums.sums;
  if (sums.count <= 0)  // what is no number is judged below
    return make_error(ErrorCode::invalid_input, where + ": the global batch has nothing to predict");

  StepReport report;
  report.step = progress_.step + 1;
  report.loss = sums.loss / sums.count;
  report.tokens = sums.tokens, report.computed_tokens = sums.computed;
  for (std::size_t i = 0; i < objective_extras; ++i) report.extra[i] = sums.extra[i] / sums.count;
  LH_TRY(const double norm, gradient_norm(summed).with_context(where));
  report.grad_norm = norm / sums.count;
  report.lr = learning_rate_at(report.step);
  report.samples = batch;
  report.problem = guard_.problem(report.loss, report.grad_norm);
  if (before_change) before_change();
  if (!report.problem.empty()) {
    for (Llama* stage : stages_)
      if (stage->experts()) (void)stage->experts()->take_totals();  // of a step that does not count
    whole_ = false;
    LH_CHECK(pass_over(report, group_sums));
    if (report.end == StepEnd::roll_back) return report;
    progress_.step += 1, progress_.consumed_samples += batch;
    whole_ = true;
    return report;
  }
  whole_ = false;
  guard_.accept(report.loss, report.grad_norm);
  const float scale =
      static_cast<float>(static_cast<double>(clip_scale(report.grad_norm, options_.optimizer.clip_grad)) / sums.count);
  LH_CHECK(end_step_of_experts(sums.count, report).with_context(where));
  LH_CHECK(end_step_of_low_precision(report).with_context(where));
  const TraceSpan span(context_.trace(), "optimizer");
  Status updated = optimizer_.update(context_, store_, report.lr, progress_.adam_step + 1, scale, summed);
  if (auto fault = fault_here(FaultPoint::engine_update)) return *fault;
  // A disk that fails under one rank ends all of them.
  if (options_.offloaded) updated = agree(updated);
  LH_CHECK(std::move(updated).with_context(where));
  progress_.step += 1, progress_.adam_step += 1;
  progress_.consumed_samples += batch;
  whole_ = true;
  return report;
}

Result<ObjectiveSums> Trainer::evaluate(BatchSource& source, std::int64_t count) {
  const std::int64_t size = options_.micro_batch_size;
  const std::int64_t total = (count + size - 1) / size;
  CollectiveGroup& data = mesh_.data();
  const std::int64_t per_rank = (total + data.size() - 1) / data.size();
  std::vector<ObjectiveSums> mine;
  // Replicas whose experts or weights (ZeRO 3) lie on each other compute as many micro-batches: one that has no more
  // goes through its last.
  const bool together = expert_dims_of(mesh_.dims())->batches > 1 || mesh_.dims().zero == 3;
  const std::int64_t first = data.rank() * per_rank;
  const auto run = [&]() -> Status {
    for (std::int64_t i = first; i < (together ? first + per_rank : std::min(total, first + per_rank)); ++i) {
      BatchStorage& batch = batches_.front();
      const std::int64_t index = std::min(i, total - 1);
      LH_CHECK(mesh_.whole().agree(fill(source, index * size, std::min(size, count - index * size), batch, false)));
      for (Llama* stage : stages_) objective_.forward(context_, *stage, 0, batch);
      const ObjectiveSums sums = objective_.evaluate(context_, *stages_.back(), 0, batch);
      if (i < total) mine.push_back(sums);
      LH_CHECK(status());
      if (on_micro_batch) on_micro_batch(progress_.step, static_cast<int>(i));
    }
    for (Llama* stage : stages_) stage->finish_sends();
    return status();
  };
  const auto judge = [this](bool evaluates) {
    for (Llama* stage : stages_)
      if (MoeState* experts = stage->experts()) experts->evaluates = evaluates;
    for (Llama* stage : stages_)
      if (LowPrecisionState* low = stage->low_precision()) low->evaluates = evaluates;
  };
  judge(true);
  const Status done = run();
  judge(false);
  LH_CHECK(agreed(done).with_context("evaluation"));
  LH_TRY(const GroupSums all, sum_over_group(mine, per_rank * data.size()).with_context("evaluation"));
  if (!std::isfinite(all.sums.loss))
    return make_error(ErrorCode::internal,
                      format("evaluation: the loss of micro-batch {} is {}", all.worst, all.sums.loss),
                      "lower the learning rate, or look at the held-out data");
  return all.sums;
}

}  // namespace longhaul
