#include "engine/train/loop/trained_state.h"

namespace longhaul {

TrainingState TrainedState::view() {
  Trainer& trainer = context_.trainer;
  TrainingState state;
  state.layout = &trainer.store().layout();
  state.shape = trainer.store().shape();
  state.masters = {trainer.store().masters(), trainer.store().device()};
  state.exp_avg = trainer.optimizer().exp_avg();
  state.exp_avg_sq = trainer.optimizer().exp_avg_sq();
  state.progress = trainer.progress();
  state.seed = context_.options.seed;
  state.extra = Value::make_table();
  if (ordered_lr_ > 0) state.extra.set(ordered_lr_key, ordered_lr_);
  if (time_line_.number() > 0) state.extra.set(time_line_key, time_line_.number());
  state.extra.set(spikes_key, trainer.spike_guard().state());
  if (Value low = trainer.low_precision_state(); low.is_table()) state.extra.set(low_precision_key, std::move(low));
  if (trainer.skipped_samples() > 0) state.extra.set(skipped_key, trainer.skipped_samples());
  if (context_.outcome.tokens > 0) state.extra.set(checkpoint_loss_key, context_.outcome.loss);
  if (heldout_step_ == state.progress.step) state.extra.set(checkpoint_heldout_loss_key, context_.outcome.heldout_loss);
  return state;
}

Status TrainedState::take(const TrainingState& state, bool rolled_back) {
  Trainer& trainer = context_.trainer;
  const Value& extra = state.extra;
  trainer.progress() = state.progress;
  if (const double ordered = extra.get_number(ordered_lr_key); ordered > 0 && !rolled_back) set_learning_rate(ordered);
  trainer.skipped_samples() = extra.get_integer(skipped_key);
  if (const Value* low = extra.find(low_precision_key)) LH_CHECK(trainer.restore_low_precision(*low));
  const Value* spikes = extra.find(spikes_key);
  if (!spikes) return {};  // of a version without
  return rolled_back ? trainer.spike_guard().restore_window(*spikes)
                     : trainer.spike_guard().restore(time_line_.spikes_of(extra, *spikes));
}

void TrainedState::set_learning_rate(double peak) {
  ordered_lr_ = peak;
  context_.trainer.set_peak_learning_rate(peak);
}

}  // namespace longhaul
