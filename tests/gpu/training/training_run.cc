#include "tests/gpu/training/training_run.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "base/files/files.h"
#include "base/text/text.h"
#include "engine/checkpoint/global/checkpoint_saver.h"
#include "engine/core/tensor/transfer.h"
#include "engine/ops/pointwise/elementwise.h"
#include "engine/train/step/trainer.h"
#include "tests/bench/gpt2_speed/fixed_tokens.h"

namespace longhaul::gpu_bench {
namespace {

// Reports the time that a step spends in forward and in backward: the device has ended what came before when one
// begins, and it when it ends. Off, nothing is waited for.
class TimedObjective final : public Objective {
 public:
  TimedObjective(Device& device, const Clock& clock) : device_(device), clock_(clock) {}
  void forward(const ComputeContext& context, Llama& model, int slot, const BatchStorage& batch) override {
    timed(phases.forward_s, [&] { inner_.forward(context, model, slot, batch); });
  }
  ObjectiveSums backward(const ComputeContext& context, Llama& model, int slot, const BatchStorage& batch,
                         const GradientTarget& target) override {
    ObjectiveSums sums;
    timed(phases.backward_s, [&] { sums = inner_.backward(context, model, slot, batch, target); });
    return sums;
  }
  ObjectiveSums evaluate(const ComputeContext& context, Llama& model, int slot, const BatchStorage& batch) override {
    return inner_.evaluate(context, model, slot, batch);
  }
  std::int64_t bytes() const override { return inner_.bytes(); }

  double now() const {
    device_.finish();
    return 1e-9 * static_cast<double>(clock_.monotonic_ns());
  }
  bool on = false;
  Phases phases;

 private:
  template <class F>
  void timed(double& seconds, const F& f) {
    const double begun = on ? now() : 0;
    f();
    if (on) seconds += now() - begun;
  }
  Device& device_;
  const Clock& clock_;
  LanguageModelObjective inner_;
};

class Training {
 public:
  Training(Gpu& gpu, const Clock& clock, const TrainingCase& training, const Recompute& recompute)
      : context_(gpu.device(), gpu.ops()),
        memory_(placed(gpu.device())),
        store_(training.shape, DType::bf16, &memory_),
        source_(training.sequences, training.sequence_length, training.shape.vocab_size),
        objective_(gpu.device(), clock) {
    TrainerOptions options;
    options.optimizer.lr = 1e-4, options.optimizer.weight_decay = 0.1, options.optimizer.clip_grad = 1.0;
    options.steps = 1000, options.deterministic = false;
    options.global_batch_size = training.sequences, options.micro_batch_size = training.micro_batch;
    options.tokens_max = training.micro_batch * training.sequence_length;
    LlamaOptions model = stage_options(training_schedules(options, mesh_).value(), options, mesh_, 0);
    model.tokens_max = options.tokens_max, model.length_max = training.sequence_length;
    model.memory = &memory_, model.recompute = recompute, model.low_precision = training.low_precision;
    model_.emplace(store_, model);
    trainer_.emplace(context_, mesh_, store_, std::vector<Llama*>{&*model_}, objective_, source_, options, &memory_);
    trainer_->hooks.before_change = [this] {
      if (objective_.on) update_begun_ = objective_.now();
      if (before_change) before_change();
    };
    make_weights();
  }

  Result<StepReport> step() {
    LH_TRY(const StepReport report, trainer_->step());
    if (!std::isfinite(report.loss))
      return make_error(ErrorCode::internal, format("step {}: the loss is {}", report.step, report.loss));
    return report;
  }
  // Of one step.
  Result<Phases> step_in_phases() {
    objective_.phases = {}, objective_.on = true;
    const double begun = objective_.now();
    const Result<StepReport> report = step();
    const double ended = objective_.now();
    objective_.on = false;
    if (!report.ok()) return report.error();
    Phases phases = objective_.phases;
    phases.whole_s = ended - begun, phases.optimizer_s = ended - update_begun_;
    phases.sums_s = phases.whole_s - phases.forward_s - phases.backward_s - phases.optimizer_s;
    return phases;
  }
  TrainingState state() {
    TrainingState state;
    state.layout = &store_.layout(), state.shape = store_.shape(), state.extra = Value::make_table();
    state.masters = {store_.masters(), store_.device()};
    state.exp_avg = trainer_->optimizer().exp_avg(), state.exp_avg_sq = trainer_->optimizer().exp_avg_sq();
    state.progress = trainer_->progress();
    return state;
  }
  const MemoryAccounts& memory() const { return memory_; }
  const ComputeContext& context() const { return context_; }
  const ParameterLayout& layout() const { return store_.layout(); }
  std::function<void()> before_change;

 private:
  MemoryAccounts& placed(Device& device) {
    own_memory_.place_on(device);
    return own_memory_;
  }
  // Random numbers as large as an initial model's, a piece of them over and over: the power that products take, and so
  // their speed, depends on the numbers, and drawing billions on the host would take minutes.
  void make_weights() {
    constexpr std::int64_t piece = 1 << 20;
    std::vector<float> values(piece);
    const Philox random{1, 0};
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = 0.02F * static_cast<float>(random.normal(i));
    MemoryAccount beside;  // no part of the training
    beside.device = context_.device();
    Tensor drawn(DType::f32, Shape{piece}, &beside);
    copy_in(context_, std::span<const float>(values), drawn);
    for (const FlatParameter& p : store_.layout().parameters()) {
      const std::span<float> to = part_of(store_.masters(), {p.begin, p.end});
      if (p.spec.init == ParameterSpec::Init::ones) fill(context_, to, 1.0F);
      if (p.spec.init != ParameterSpec::Init::normal) continue;
      for (std::size_t at = 0; at < to.size(); at += piece)
        context_.device()->copy(
            drawn.view().data(), to.data() + at,
            static_cast<std::int64_t>(std::min<std::size_t>(piece, to.size() - at) * sizeof(float)));
    }
    store_.refresh_compute_copy(context_);
    context_.device()->finish();
  }

  const ComputeContext context_;
  MemoryAccounts own_memory_;
  MemoryAccounts& memory_;
  Mesh mesh_;
  ParameterStore store_;
  bench::FixedTokens source_;
  TimedObjective objective_;
  std::optional<Llama> model_;
  std::optional<Trainer> trainer_;
  double update_begun_ = 0;
};

// The time of one measurement.
class Allowance {
 public:
  Allowance(const Clock& clock, double seconds) : clock_(clock), ends_(now() + seconds) {}
  double now() const { return 1e-9 * static_cast<double>(clock_.monotonic_ns()); }
  bool holds(double seconds) const { return now() + seconds <= ends_; }

 private:
  const Clock& clock_;
  double ends_;
};

// Steps until so many are timed or there is no time for the next and one more (of the phases, or of the save's end).
Result<std::vector<double>> timed_steps(Training& training, Device& device, const Allowance& time, int most,
                                        double expected_s, double* last_loss) {
  std::vector<double> seconds;
  while (static_cast<int>(seconds.size()) < most && time.holds(expected_s)) {
    const double begun = time.now();
    LH_TRY(const StepReport report, training.step());
    device.finish();
    seconds.push_back(time.now() - begun);
    expected_s = 2.2 * seconds.back();
    if (last_loss != nullptr) *last_loss = report.loss;
  }
  return seconds;
}

double sum_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum;
}

Error no_time(const RunLimits& limits, double step_s) {
  return make_error(ErrorCode::timeout,
                    format("no step could be timed within {:.0f} s: the first took {:.1f} s", limits.seconds, step_s));
}

}  // namespace

double Measured::median_s() const {
  std::vector<double> sorted = step_s;
  std::sort(sorted.begin(), sorted.end());
  return sorted.empty() ? 0 : sorted[sorted.size() / 2];
}

Result<Measured> measure(Gpu& gpu, const Clock& clock, const TrainingCase& wanted, const Recompute& recompute,
                         const RunLimits& limits) {
  const Allowance time(clock, limits.seconds);
  Device& device = gpu.device();
  const std::int64_t free_before = device.free_bytes();
  Training training(gpu, clock, wanted, recompute);
  Measured measured;
  measured.layers = wanted.shape.num_hidden_layers;
  const double begun = time.now();
  LH_TRY(const StepReport first, training.step());  // libraries choose, scratch grows
  device.finish();
  measured.first_loss = first.loss;
  const double warm_up_s = time.now() - begun;
  const auto look_at_memory = [&] {
    measured.taken_on_device = free_before - device.free_bytes();
    measured.held = training.memory().peak();
  };
  if (limits.steps_max == 0) {
    measured.step_s = {warm_up_s}, measured.last_loss = first.loss;
    look_at_memory();
    return measured;
  }
  LH_TRY(measured.step_s, timed_steps(training, device, time, limits.steps_max, 2 * warm_up_s, &measured.last_loss));
  if (measured.step_s.empty()) {  // the first was slower than those behind it will be
    LH_TRY(measured.step_s, timed_steps(training, device, time, 1, 0.5 * warm_up_s, &measured.last_loss));
    if (measured.step_s.empty()) return no_time(limits, warm_up_s);
  }
  look_at_memory();
  Result<std::unique_ptr<KernelTimer>> timer = gpu.time_kernels();
  if (!timer.ok()) measured.no_kernels = timer.error().message();
  if (timer.ok()) (void)(*timer)->take();
  LH_TRY(measured.phases, training.step_in_phases());
  if (!timer.ok()) return measured;
  const Result<KernelTable> kernels = (*timer)->take();
  if (kernels.ok())
    measured.kernels = *kernels;
  else
    measured.no_kernels = kernels.error().message();
  return measured;
}

Result<CheckpointCost> checkpoint_cost(Gpu& gpu, const Clock& clock, const TrainingCase& wanted,
                                       const Recompute& recompute, const RunLimits& limits, const std::string& folder) {
  const Allowance time(clock, limits.seconds), half(clock, 0.5 * limits.seconds);
  Device& device = gpu.device();
  Training training(gpu, clock, wanted, recompute);
  const CheckpointStore store(clock, folder, 1);
  CheckpointSaverOptions options;
  options.compute = &training.context(), options.direct_io = true;
  CheckpointSaver saver(clock, store, options);
  training.before_change = [&saver] { saver.finish_copy(); };
  LH_CHECK(saver.reserve(training.layout(), training.state().types()));
  const double begun = time.now();
  LH_CHECK(training.step());
  device.finish();
  LH_TRY(const std::vector<double> without,
         timed_steps(training, device, half, limits.steps_max, 2 * (time.now() - begun), nullptr));
  if (without.empty()) return no_time(limits, time.now() - begun);
  CheckpointCost cost;
  cost.step_s = sum_of(without) / static_cast<double>(without.size());
  CollectiveGroup alone;
  const double saves = time.now();
  LH_CHECK(saver.start(alone, training.state()));
  std::optional<SavedCheckpoint> saved;
  while (!saved || cost.steps < static_cast<int>(without.size())) {
    if (!time.holds(cost.step_s)) break;
    LH_CHECK(training.step());
    ++cost.steps;
    if (saved || !saver.ready()) continue;
    LH_TRY(saved, saver.advance(alone));
  }
  device.finish();
  cost.extra_s = time.now() - saves - cost.step_s * cost.steps;
  if (!saved) {
    (void)saver.finish(alone);
    return make_error(ErrorCode::timeout, format("the save was not done within {:.0f} s", limits.seconds));
  }
  if (!saved->staged) return make_error(ErrorCode::unavailable, "the save was not staged in pinned memory");
  cost.bytes = saved->bytes, cost.stood_still_s = saved->seconds, cost.write_s = saved->write_seconds;
  return cost;
}

}  // namespace longhaul::gpu_bench
