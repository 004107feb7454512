// What a training says of its steps: events, metrics and curves, the heartbeat page, traces, the figures of its
// outcome. It decides nothing.
#pragma once

#include "engine/checkpoint/local/restart_source.h"
#include "engine/train/loop/loop_context.h"
#include "engine/train/loop/training_kernels.h"

namespace longhaul {

class TrainingReporter {
 public:
  explicit TrainingReporter(LoopContext& context)
      : context_(context), curves_(context.options.curves), kernels_(context.options.kernel_timer, context.events) {}

  // Of what was loaded: sources that were passed over; a checkpoint whose moments have other types than here.
  void passed_over(LoadedState& loaded);
  void conversion(const TrainingState& loaded);
  // Curves of steps after `step` are those of a launch before.
  Status resumed_after(std::int64_t step) { return curves_ ? curves_->resumed_after(step) : Status(); }
  // Everything is loaded, and the next step is the first: where start and load end in the accounting of time.
  // load_begun_ns: 0: nothing was to be loaded.
  void ready(const LoadedState& loaded, std::int64_t load_begun_ns);

  // Around Trainer::step(); `seconds`: it took.
  void begin_step(std::int64_t step);
  void before_update() { kernels_.take(); }
  void end_trace();
  void count_step(const StepReport& step, double seconds);
  void bad_step(const StepReport& bad);
  void step_done(const StepReport& step, double seconds);
  void kernels(std::int64_t step) { kernels_.report(step, step >= context_.steps()); }
  void evaluation(const ObjectiveSums& sums);
  // The phase of the next step is reported again.
  void forget_phase() { reported_phase_ = nullptr; }

 private:
  void phase(std::int64_t step);
  void metric(Value fields);
  void low_precision(const StepReport& step);
  double flops_per_token(std::int64_t step) const;

  LoopContext& context_;
  TensorBoardWriter* curves_;  // borrowed, may be null
  KernelReport kernels_;
  const PlannedPhase* reported_phase_ = nullptr;
  std::int64_t computed_ns_ = 0;  // of the last step, not on the heartbeat page yet
};

}  // namespace longhaul
