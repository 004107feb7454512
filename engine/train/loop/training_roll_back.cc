// TrainingLoop: a step whose loss is no number, or a spike, with on_spike.action = "rollback" (spike_guard.h).
#include "base/text/text.h"
#include "contracts/events/roll_back_event.h"
#include "engine/train/loop/training_extra.h"
#include "engine/train/loop/training_loop.h"

namespace longhaul {

namespace {
constexpr std::int64_t abandon_deadline_ms = 10'000;  // of a copy on this node that is being written
}

Status TrainingLoop::roll_back(const StepReport& bad) {
  const std::int64_t begun_ns = clock_.monotonic_ns();
  LH_CHECK(finish_save());
  section("load");
  const std::int64_t load_begun_ns = clock_.monotonic_ns();
  const std::int64_t read = trainer_.progress().consumed_samples + trainer_.skipped_samples() + bad.samples;
  TrainingState state = this->state();
  LH_TRY(const std::optional<LoadedCheckpoint> loaded,
         checkpoints_.load_newest(trainer_.group(), state, trainer_.context().threads()));
  if (!loaded)
    return make_error(ErrorCode::internal, bad.problem + "; there is no checkpoint to roll back to",
                      "set checkpoint.every_steps, or on_spike.action = \"skip\"");
  trainer_.progress() = state.progress;
  LH_CHECK(take(state.extra, true).with_context(loaded->path));
  const std::int64_t left_out_from = state.progress.consumed_samples + trainer_.skipped_samples();
  trainer_.skipped_samples() = read - state.progress.consumed_samples;
  trainer_.store().refresh_compute_copy(trainer_.context());
  LH_CHECK(begin_time_line(bad.step));
  saved_step_ = state.progress.step;
  told_phase_ = nullptr;
  events_.message(
      "warn", format("back to step {}; samples {} to {} are left out", state.progress.step, left_out_from, read - 1));
  if (options_.curves) LH_CHECK(options_.curves->resumed_after(state.progress.step));
  // Only when all have come so far is the copy of what was before given up.
  trainer_.set_whole(true), ++version_;
  LH_CHECK(trainer_.group().agree(trainer_.store().status()));
  next_copy_ = version_;
  keep_copy(options_.snapshot_every_steps);
  tell_rolled_back(bad, loaded->path, read - left_out_from, begun_ns, load_begun_ns);
  return {};
}

// Whatever ends a rank before the new line is written down, the next launch goes on along the old one, as if the step
// had not been done; afterwards no restart takes what lies behind the target. Newer checkpoints are damaged ones, which
// the search for the target passed over: they must not count as the newest of the new line.
Status TrainingLoop::begin_time_line(std::int64_t bad_step) {
  CollectiveGroup& group = trainer_.group();
  const std::int64_t step = trainer_.progress().step;
  LH_CHECK(group.agree(trainer_.store().status()));
  const Value spikes = trainer_.spike_guard().state();
  const TimeLine next = time_line_.rolled_back(step, trainer_.skipped_samples(), *spikes.find("spent"), bad_step);
  const auto write = [&]() -> Status {
    LH_CHECK(checkpoints_.set_aside_after(step));
    LH_CHECK(write_time_line(checkpoints_.folder(), next));
    return checkpoints_.fence().look();
  };
  LH_CHECK(group.agree(group.is_first() ? write() : Status()).with_context("roll-back"));
  time_line_ = next;
  return options_.local_copies ? options_.local_copies->abandon_after(step, abandon_deadline_ms) : Status();
}

void TrainingLoop::tell_rolled_back(const StepReport& bad, const std::string& path, std::int64_t left_out,
                                    std::int64_t begun_ns, std::int64_t load_begun_ns) {
  const std::int64_t now_ns = clock_.monotonic_ns();
  RollBackEvent told;
  told.step = bad.step, told.to_step = trainer_.progress().step;
  told.lost_steps = told.step - 1 - told.to_step, told.samples_left_out = left_out;
  told.total_s = static_cast<double>(now_ns - begun_ns) * 1e-9;
  told.load_s = static_cast<double>(now_ns - load_begun_ns) * 1e-9;
  Value fields = Value::make_table();
  set_fields(fields, told);
  fields.set("loss", bad.loss);
  fields.set("grad_norm", bad.grad_norm);
  fields.set("problem", bad.problem);
  fields.set("path", path);
  events_.write(rolled_back_event_kind, std::move(fields));
}

// Of a state in memory: a roll-back that some ranks have not come to the end of may be written down already, and what
// would be saved of the state before it would be refused by the next launch.
Status TrainingLoop::still_on_time_line(const TrainingState& state) {
  if (trainer_.spike_guard().settings().action != "rollback") return {};
  LH_TRY(time_line_, read_time_line(trainer_.group(), checkpoints_.folder(), checkpoints_.retry()));
  if (state.extra.get_integer(time_line_key) == time_line_.number()) return {};
  return make_error(ErrorCode::unavailable, "the state in memory is of before a roll-back that is written down",
                    "the next launch goes on from its target");
}

}  // namespace longhaul
