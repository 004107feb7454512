// TrainingLoop: a fault that all ranks survive (in_process_restart.h).
#include "base/text/text.h"
#include "engine/train/loop/training_extra.h"
#include "engine/train/loop/training_loop.h"

namespace longhaul {

namespace {
constexpr std::int64_t give_up_deadline_ms = 10'000;  // of work in the background, before a fault is not got over
}

// Taken when the others have ended the step as well (asked()): see MemorySnapshot.
void TrainingLoop::keep_copy(std::int64_t interval) {
  const bool wanted = options_.restart && options_.snapshot_every_steps > 0 && beat_ && beat_->restart_wait_ms() > 0;
  if (!wanted || snapshot_refused_ || version_ < next_copy_) return;
  section("snapshot");
  if (!snapshot_) {
    Result<MemorySnapshot> made = MemorySnapshot::create(state(), options_.snapshot_account);
    if (!made.ok()) {
      snapshot_refused_ = true;
      events_.message("warn", "no copy of the training is kept in memory: " + made.error().message());
      return;
    }
    snapshot_.emplace(std::move(made).value());
  }
  const std::int64_t begun = clock_.monotonic_ns();
  snapshot_->take(trainer_.context(), state(), version_);
  // One that was disturbed says little of the next.
  const double seconds = static_cast<double>(clock_.monotonic_ns() - begun) * 1e-9;
  copy_seconds_ = copy_seconds_ > 0 ? std::min(seconds, 1.1 * copy_seconds_) : seconds;
  next_copy_ = version_ + std::max<std::int64_t>(1, interval);
  if (told_interval_ > 0 || step_seconds_ <= 0) return;
  told_interval_ = std::max<std::int64_t>(1, interval);
  events_.message("info",
                  format("a copy of the training ({}) is kept in memory, now every {} steps: it takes {:.2f} ms, "
                         "a step {:.1f} ms",
                         human_bytes(static_cast<double>(snapshot_->bytes())), told_interval_, copy_seconds_ * 1e3,
                         step_seconds_ * 1e3));
}

Status TrainingLoop::restart(const Error& fault) {
  if (!options_.restart || !beat_) return fault;
  InProcessRestart& place = *options_.restart;
  // What was found on its way into an update has not spoilt the weights, and may not come again.
  const std::optional<SilentCorruption>& corruption = trainer_.corruption();
  FaultHere here{fault, may_pass(fault)};
  if (corruption)
    here.passes = corruption->decided && corruption->weights_are_sound(),
    here.is_own = corruption->rank == trainer_.group().rank();
  LH_TRY(const std::int64_t epoch,
         await_restart_order(*beat_, place.epoch, here, clock_, stop_, [&](const Error& error) {
           if (place.tell) place.tell(error, corruption);
         }));
  const std::int64_t begun = clock_.monotonic_ns();
  section("restart");
  const std::string where = "in-process restart after: " + fault.message();
  trainer_.leave();
  place.leave();
  auto stages = place.join(epoch);
  if (!stages.ok()) return stages.error().with_context(where);
  place.epoch = epoch;
  trainer_.join(std::move(stages).value());
  LH_CHECK(go_back(epoch).with_context(where));
  beat_->epoch(epoch);
  outcome_.restarts += 1;
  Value fields = Value::make_table();
  fields.set("step", trainer_.progress().step);
  fields.set("load_s", static_cast<double>(clock_.monotonic_ns() - begun) * 1e-9);
  fields.set("from", "memory");
  fields.set("epoch", epoch);
  events_.write("ready", std::move(fields));
  return {};
}

// To the newest state that every rank holds; and what the ranks did beside the steps goes on only where all of them are
// as far.
Status TrainingLoop::go_back(std::int64_t epoch) {
  enum { copy, own, of_epoch, saving, copying, fields };
  double mine[fields];
  const std::optional<std::int64_t> held = snapshot_ ? snapshot_->version() : std::nullopt;
  mine[copy] = static_cast<double>(held.value_or(-1));
  mine[own] = trainer_.whole() ? static_cast<double>(version_) : -1;
  mine[of_epoch] = static_cast<double>(epoch);
  mine[saving] = static_cast<double>(saver_.progress_key());
  mine[copying] =
      options_.local_copies && options_.local_copies->busy() ? static_cast<double>(options_.local_copies->step()) : -1;
  std::vector<double> all(static_cast<std::size_t>(trainer_.group().size()) * fields);
  LH_CHECK(trainer_.group().all_gather(mine, all));
  std::vector<HeldStates> ranks;
  bool save_goes_on = true, copy_goes_on = true;
  for (std::size_t at = 0; at < all.size(); at += fields) {
    if (all[at + of_epoch] != mine[of_epoch])
      return make_error(ErrorCode::aborted, format("rank {} was ordered to epoch {:.0f}, this one to {}", at / fields,
                                                   all[at + of_epoch], epoch));
    const auto version = [&](std::size_t field) {
      return all[at + field] < 0 ? std::nullopt : std::optional(static_cast<std::int64_t>(all[at + field]));
    };
    ranks.push_back({version(copy), version(own)});
    save_goes_on &= all[at + saving] == mine[saving];
    copy_goes_on &= all[at + copying] == mine[copying];
  }
  const std::optional<std::int64_t> common = newest_held_by_all(ranks);
  if (!common)
    return make_error(ErrorCode::unavailable, "there is no state in memory that every rank holds",
                      "checkpoint.snapshot_every = 1 keeps a copy of every step");
  TrainingState state = this->state();
  const bool restored = !trainer_.whole() || version_ != *common;
  saver_.finish_copy();
  if (restored) snapshot_->restore(trainer_.context(), state);
  LH_CHECK(still_on_time_line(state));
  if (restored) {
    trainer_.progress() = state.progress;
    set_learning_rate(state.extra.get_number(ordered_lr_key));  // 0: as configured
    LH_CHECK(take(state.extra, false));
    outcome_.loss = state.extra.get_number(checkpoint_loss_key, outcome_.loss);
    trainer_.set_whole(true);
  }
  version_ = *common;
  if (held > version_) snapshot_->forget();
  next_copy_ = version_;  // on all ranks, so that all have a copy of the same versions
  told_phase_ = nullptr;
  trainer_.store().refresh_compute_copy(trainer_.context());
  checkpoint_orders_seen_ = checkpoint_orders_obeyed_;
  end_again_ = trainer_.progress().step > 0;
  if (options_.curves) LH_CHECK(options_.curves->resumed_after(trainer_.progress().step));
  return settle_saves(save_goes_on, copy_goes_on);
}

Status TrainingLoop::settle_saves(bool save_goes_on, bool copy_goes_on) {
  const auto given_up = [&]() -> Status {
    if (!save_goes_on) LH_CHECK(saver_.give_up(give_up_deadline_ms));
    LH_CHECK(read_back_.give_up(give_up_deadline_ms));
    if (!copy_goes_on && options_.local_copies) LH_CHECK(options_.local_copies->give_up(give_up_deadline_ms));
    return {};
  };
  LH_CHECK(trainer_.group().agree(given_up()));
  LH_TRY(const std::int64_t newest, checkpoints_.newest_step(trainer_.group()));
  const std::int64_t here = trainer_.progress().step;
  saved_step_ = saver_.busy() ? saver_.step() : newest == here ? here : -1;
  return {};
}

}  // namespace longhaul
