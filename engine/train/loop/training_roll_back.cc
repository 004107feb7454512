#include "engine/train/loop/training_roll_back.h"

#include "base/text/text.h"
#include "contracts/events/roll_back_event.h"

namespace longhaul {

namespace {
constexpr std::int64_t abandon_deadline_ms = 10'000;  // of a copy on this node that is being written
}

Status TrainingRollBack::roll_back(const StepReport& bad) {
  Trainer& trainer = context_.trainer;
  const std::int64_t begun_ns = context_.clock.monotonic_ns();
  LH_CHECK(saves_.finish_save());
  context_.enter("load");
  const std::int64_t load_begun_ns = context_.clock.monotonic_ns();
  const std::int64_t read = trainer.progress().consumed_samples + trainer.skipped_samples() + bad.samples;
  TrainingState state = state_.view();
  LH_TRY(const std::optional<LoadedCheckpoint> loaded,
         context_.checkpoints.load_newest(context_.group(), state, trainer.context().threads()));
  if (!loaded)
    return make_error(ErrorCode::internal, bad.problem + "; there is no checkpoint to roll back to",
                      "set checkpoint.every_steps, or on_spike.action = \"skip\"");
  LH_CHECK(state_.take(state, true).with_context(loaded->path));
  if (TrainingCompanion* companion = context_.options.companion) LH_CHECK(companion->load(loaded->path));
  const std::int64_t left_out_from = state.progress.consumed_samples + trainer.skipped_samples();
  trainer.skipped_samples() = read - state.progress.consumed_samples;
  trainer.store().refresh_compute_copy(trainer.context());
  LH_CHECK(begin_time_line(bad.step));
  saves_.set_saved_step(state.progress.step);
  reporter_.forget_phase();
  context_.events.message(
      "warn", format("back to step {}; samples {} to {} are left out", state.progress.step, left_out_from, read - 1));
  LH_CHECK(reporter_.resumed_after(state.progress.step));
  // Only when all have come so far is the copy of what was before given up.
  trainer.set_whole(true);
  state_.set_version(state_.version() + 1);
  LH_CHECK(context_.group().agree(trainer.store().status()));
  copies_.begin_again();
  copies_.keep(context_.options.snapshot_every_steps);
  report(bad, loaded->path, read - left_out_from, begun_ns, load_begun_ns);
  return {};
}

// Whatever ends a rank before the new line is written down, the next launch goes on along the old one, as if the step
// had not been done; afterwards no restart takes what lies behind the target. Newer checkpoints are damaged ones, which
// the search for the target passed over: they must not count as the newest of the new line.
Status TrainingRollBack::begin_time_line(std::int64_t bad_step) {
  CollectiveGroup& group = context_.group();
  Trainer& trainer = context_.trainer;
  CheckpointStore& checkpoints = context_.checkpoints;
  const std::int64_t step = context_.step();
  LH_CHECK(group.agree(trainer.store().status()));
  const Value spikes = trainer.spike_guard().state();
  const TimeLine next =
      state_.time_line().rolled_back(step, trainer.skipped_samples(), *spikes.find("spent"), bad_step);
  const auto write = [&]() -> Status {
    LH_CHECK(checkpoints.set_aside_after(step));
    LH_CHECK(write_time_line(checkpoints.folder(), next));
    return checkpoints.fence().look();
  };
  LH_CHECK(group.agree(group.is_first() ? write() : Status()).with_context("roll-back"));
  state_.set_time_line(next);
  LocalCopies* copies = context_.options.local_copies;
  return copies ? copies->abandon_after(step, abandon_deadline_ms) : Status();
}

void TrainingRollBack::report(const StepReport& bad, const std::string& path, std::int64_t left_out,
                              std::int64_t begun_ns, std::int64_t load_begun_ns) {
  RollBackEvent event;
  event.step = bad.step, event.to_step = context_.step();
  event.lost_steps = event.step - 1 - event.to_step, event.samples_left_out = left_out;
  event.load_s = context_.seconds_since(load_begun_ns);
  event.total_s = context_.seconds_since(begun_ns);  // asked last: it is never less than its part
  Value fields = Value::make_table();
  set_fields(fields, event);
  fields.set("loss", bad.loss);
  fields.set("grad_norm", bad.grad_norm);
  fields.set("problem", bad.problem);
  fields.set("path", path);
  context_.events.write(rolled_back_event_kind, std::move(fields));
}

// What would be saved of a state before a roll-back that is written down would be refused by the next launch.
Status TrainingRollBack::check_time_line(const TrainingState& state) {
  if (context_.trainer.spike_guard().settings().action != "rollback") return {};
  LH_TRY(TimeLine line, read_time_line(context_.group(), context_.checkpoints.folder(), context_.checkpoints.retry()));
  state_.set_time_line(std::move(line));
  if (state.extra.get_integer(time_line_key) == state_.time_line().number()) return {};
  return make_error(ErrorCode::unavailable, "the state in memory is of before a roll-back that is written down",
                    "the next launch goes on from its target");
}

}  // namespace longhaul
