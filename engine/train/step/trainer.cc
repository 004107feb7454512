#include "engine/train/step/trainer.h"

#include <cmath>
#include <limits>

#include "base/process/fault_point.h"
#include "base/system/clock.h"
#include "base/text/text.h"

namespace longhaul {
namespace {

GradientReductionOptions reduction_options(const StepSchedule& schedule, const Mesh& mesh) {
  const TrainerOptions& options = schedule.options();
  return {schedule.gradient_options(mesh), options.adapted, options.check_contributions, options.overlap_weights};
}

// As the rank that it is.
Error error_of(const SilentCorruption& found, int rank) {
  if (found.rank == rank)
    return make_error(ErrorCode::corrupt, silent_corruption_prefix + found.what, "test this host's memory and GPU");
  return make_error(ErrorCode::aborted, format("rank {} left: {}", found.rank, found.what));
}

}  // namespace

Trainer::Trainer(const ComputeContext& context, Mesh& mesh, ParameterStore& store, std::vector<Llama*> stages,
                 Objective& objective, BatchSource& source, const TrainerOptions& options, MemoryAccounts* memory)
    : context_(context),
      mesh_(mesh),
      store_(store),
      source_(source),
      schedule_(options, mesh),
      optimizer_(store.layout(), options.optimizer, options.seed, account_of(memory, MemoryCategory::optimizer),
                 options.offloaded),
      executor_(context, mesh, objective, schedule_.options(), hooks, schedule_.slots(mesh),
                schedule_.micro_batches_max(), memory),
      gradients_(context, mesh, store, reduction_options(schedule_, mesh), memory),
      replay_(mesh, options.replay_every),
      guard_(options.on_spike) {
  executor_.set_stages(std::move(stages));
  gradients_.connect();
}

void Trainer::leave() {
  gradients_.disconnect();
  executor_.release_stages();
}

void Trainer::join(std::vector<Llama*> stages) {
  executor_.set_stages(std::move(stages));
  gradients_.connect();
}

Result<StepReport> Trainer::step() {
  const std::int64_t waited = waited_ns(mesh_) + agreed_ns_;
  const CommunicationTable before = traffic_of(mesh_);
  context_.set_between([this] {
    gradients_.poll();
    executor_.poll();
  });
  Result<StepReport> report = do_step();
  context_.set_between({});
  if (!report.ok()) return report;
  report->waited_s = static_cast<double>(waited_ns(mesh_) + agreed_ns_ - waited) * 1e-9;
  report->traffic = traffic_of(mesh_) - before;
  return report;
}

Result<StepReport> Trainer::do_step() {
  const std::int64_t step = state_.progress.step + 1;
  const std::string where = format("step {}", step);
  corruption_.reset();
  const std::int64_t samples = schedule_.batch_size(state_.progress.consumed_samples);
  const int micro_batches = schedule_.micro_batches(samples);
  const auto compute = [&](int distance) { return compute_first_of(distance, micro_batches); };
  replay_.begin_at(state_.progress.step);
  const bool replays = replay_.is_due(step);
  if (replays) LH_CHECK(agreed(replay_.compute_neighbour(compute)).with_context(where));

  // A rank that cannot go on (unreadable data) takes the others with it instead of leaving them waiting.
  std::vector<ObjectiveSums> mine;
  LH_CHECK(agreed(accumulate(micro_batches, mine)).with_context(where));
  if (!mine.empty() && fault_here(FaultPoint::engine_loss))
    mine.front().loss = std::numeric_limits<double>::quiet_NaN();
  // Before any other collective of these ranks: how many sums have not started yet differs from rank to rank.
  LH_TRY(const std::span<float> gradient, gradients_.finish().with_context(where));
  LH_TRY(const GroupSums group,
         sum_over_group(mesh_, mine, std::int64_t{micro_batches} * mesh_.data().size()).with_context(where));
  LH_CHECK(gradients_.sum_over_replica(executor_.stages(), gradient).with_context(where));
  LH_CHECK(check_contributions(step).with_context(where));
  if (replays) LH_CHECK(check_replays(step, compute).with_context(where));

  LH_TRY(StepReport report, judge(group.sums, gradient, samples).with_context(where));
  if (hooks.before_change) hooks.before_change();
  state_.whole = false;
  if (report.problem.empty()) {
    LH_CHECK(update(gradient, group.sums.count, report));
    state_.progress.adam_step += 1;
  } else {
    discard_expert_counts(executor_.stages());
    LH_CHECK(pass_over(report, group));
    if (report.end == StepEnd::roll_back) return report;
  }
  state_.progress.step += 1, state_.progress.consumed_samples += samples;
  state_.whole = true;
  return report;
}

// The ranks that compute together go on together or not at all.
Status Trainer::fill(int rank, int micro_batches, int count) {
  source_.begin_step(state_.progress.step + 1, state_.skipped_samples);
  const std::int64_t before = std::int64_t{rank} * micro_batches * options().micro_batch_size;
  const std::int64_t first = state_.progress.consumed_samples + state_.skipped_samples + before;
  return mesh_.whole().agree(executor_.fill(source_, first, count));
}

Status Trainer::accumulate(int micro_batches, std::vector<ObjectiveSums>& sums) {
  LH_CHECK(fill(mesh_.data().rank(), micro_batches, micro_batches));
  begin_step_of_low_precision(context_, executor_.stages(), state_.progress.step + 1);
  gradients_.begin(micro_batches);
  // The first micro-batch's is looked at where a neighbour has computed it as well.
  const std::optional<std::uint64_t> flip = hooks.gradient_flip();
  const bool looks = replay_.is_due(state_.progress.step + 1) || flip;
  replay_.digest().begin(flip);
  MicroBatchGradients targets;
  targets.target = [this, looks](int micro_batch) {
    GradientTarget target = gradients_.target(micro_batch);
    return looks && micro_batch == 0 ? replay_.digest().watch(std::move(target)) : target;
  };
  targets.done = [this](int micro_batch) { gradients_.done(micro_batch); };
  LH_CHECK(executor_.run(state_.progress.step + 1, schedule_.operations(micro_batches), targets, sums));
  replay_.keep_own();
  return {};
}

Result<std::uint64_t> Trainer::compute_first_of(int distance, int micro_batches) {
  CollectiveGroup& data = mesh_.data();
  LH_CHECK(fill((data.rank() + distance) % data.size(), micro_batches, 1));
  LH_TRY(const std::vector<ScheduleOp> operations, schedule_.operations_of_one(mesh_));
  replay_.digest().begin(hooks.gradient_flip());
  const auto target = [this](int) { return replay_.digest().watch(gradients_.scratch()); };
  std::vector<ObjectiveSums> sums;
  LH_CHECK(executor_.run(state_.progress.step + 1, operations, {target, {}}, sums));
  discard_expert_counts(executor_.stages());
  return replay_.digest().value();
}

Status Trainer::check_contributions(std::int64_t step) {
  LH_TRY(corruption_, gradients_.guard().verify(mesh_.world(), step));
  if (!corruption_) return {};
  discard_expert_counts(executor_.stages());
  return error_of(*corruption_, group().rank());
}

Status Trainer::check_replays(std::int64_t step, const GradientReplay::Compute& compute) {
  LH_TRY(corruption_, replay_.compare(step, compute));
  return corruption_ ? Status(error_of(*corruption_, group().rank())) : Status();
}

Result<StepReport> Trainer::judge(const ObjectiveSums& sums, std::span<const float> gradient, std::int64_t samples) {
  if (sums.count <= 0)  // what is no number is judged below
    return make_error(ErrorCode::invalid_input, "the global batch has nothing to predict");
  StepReport report;
  report.step = state_.progress.step + 1;
  report.loss = sums.loss / sums.count;
  report.tokens = sums.tokens, report.computed_tokens = sums.computed;
  for (std::size_t i = 0; i < objective_extras; ++i) report.extra[i] = sums.extra[i] / sums.count;
  report.largest = sums.largest;
  LH_TRY(const double norm, gradients_.norm(gradient));
  report.grad_norm = norm / sums.count;
  report.lr = schedule_.learning_rate_at(report.step);
  report.samples = samples;
  report.problem = guard_.problem(report.loss, report.grad_norm);
  return report;
}

Status Trainer::pass_over(StepReport& report, const GroupSums& group) {
  const SpikeSettings& policy = guard_.settings();
  const std::string what = format(
      "step {}: {} (loss {:.6g}, gradient norm {:.6g}, the {} micro-batch is {}, from sample {} on)", report.step,
      report.problem, report.loss, report.grad_norm, std::isfinite(report.loss) ? "worst" : "first such", group.worst,
      state_.progress.consumed_samples + state_.skipped_samples + group.worst * options().micro_batch_size);
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

Status Trainer::update(std::span<float> gradient, double count, StepReport& report) {
  const std::string where = format("step {}", report.step);
  guard_.accept(report.loss, report.grad_norm);
  const double clip = static_cast<double>(clip_scale(report.grad_norm, options().optimizer.clip_grad));
  LH_CHECK(end_step_of_experts(context_, mesh_, store_, executor_.stages(), !options().adapted, count, report)
               .with_context(where));
  LH_CHECK(end_step_of_low_precision(group(), executor_.stages(), report).with_context(where));
  const TraceSpan span(context_.trace(), "optimizer");
  Status updated = optimizer_.update(context_, store_, report.lr, state_.progress.adam_step + 1,
                                     static_cast<float>(clip / count), gradient);
  if (auto fault = fault_here(FaultPoint::engine_update)) return *fault;
  // A disk that fails under one rank ends all of them.
  if (options().offloaded) updated = agree(updated);
  return std::move(updated).with_context(where);
}

Status Trainer::agreed(const Status& mine) {
  if (!mine.ok() && hooks.fails_alone && hooks.fails_alone(mine.error())) return mine;
  return agree(mine);
}

// The mesh does not count what is waited in the world's communicator, and here the fast ranks wait for the slow one.
Status Trainer::agree(const Status& mine) {
  const SystemClock clock;
  const std::int64_t begun = clock.monotonic_ns();
  Status all = group().agree(mine);
  agreed_ns_ += clock.monotonic_ns() - begun;
  return all;
}

Result<ObjectiveSums> Trainer::evaluate(BatchSource& source, std::int64_t count) {
  CollectiveGroup& data = mesh_.data();
  // Replicas whose experts or weights (ZeRO 3) lie on each other compute as many micro-batches: one that has no more
  // goes through its last.
  const bool together = expert_dims_of(mesh_.dims())->batches > 1 || mesh_.dims().zero == 3;
  const EvaluationShare share = evaluation_share(count, options().micro_batch_size, data.rank(), data.size(), together);
  std::vector<ObjectiveSums> mine;
  set_evaluates(executor_.stages(), true);
  const Status done = executor_.evaluate(source, count, share, state_.progress.step, mine);
  set_evaluates(executor_.stages(), false);
  LH_CHECK(agreed(done).with_context("evaluation"));
  LH_TRY(const GroupSums all, sum_over_group(mesh_, mine, share.per_rank * data.size()).with_context("evaluation"));
  if (!std::isfinite(all.sums.loss))
    return make_error(ErrorCode::internal,
                      format("evaluation: the loss of micro-batch {} is {}", all.worst, all.sums.loss),
                      "lower the learning rate, or look at the held-out data");
  return all.sums;
}

}  // namespace longhaul
