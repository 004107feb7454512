#include "engine/train/loop/training_saves.h"

#include "base/text/text.h"

namespace longhaul {
namespace {

constexpr std::int64_t give_up_deadline_ms = 10'000;  // of work in the background, before a fault is not got over

CheckpointSaverOptions saver_options(const LoopContext& context, std::function<void(std::int64_t)> on_writing) {
  CheckpointSaverOptions saver = context.options.saver;
  saver.compute = &context.trainer.context();
  saver.on_writing = std::move(on_writing);
  return saver;
}

// Of an event `checkpoint`; waited_s: before the save began.
Value fields_of(const SavedCheckpoint& saved, double waited_s) {
  Value fields = Value::make_table();
  fields.set("step", saved.step);
  fields.set("path", saved.path);
  fields.set("bytes", saved.bytes);
  fields.set("stall_s", saved.seconds + waited_s);
  fields.set("write_s", saved.write_seconds);
  if (waited_s > 0) fields.set("waited_s", waited_s);
  fields.set("asynchronous", saved.staged);
  fields.set("direct_io", saved.direct_io);
  return fields;
}

}  // namespace

TrainingSaves::TrainingSaves(LoopContext& context, TrainedState& state)
    : context_(context),
      state_(state),
      saver_(context.clock, context.checkpoints,
             saver_options(context, [this](std::int64_t bytes) { note_written(bytes); })),
      read_back_(context.clock, context.checkpoints) {}

// A save that is not staged writes where it stands.
void TrainingSaves::note_written(std::int64_t bytes) {
  if (context_.section != beat_checkpoint_write) context_.enter(beat_checkpoint_write);
  if (context_.beat) context_.beat->wrote(bytes);
}

void TrainingSaves::reserve() {
  if (const Status reserved = saver_.reserve(context_.trainer.store().layout(), state_.view().types()); !reserved.ok())
    context_.events.message("warn", reserved.error().message());
}

Status TrainingSaves::save() {
  if (saved_step_ == context_.step()) return {};
  waited_s_ = 0;
  if (saver_.busy()) {
    const std::int64_t begun = context_.clock.monotonic_ns(), before = saver_.step();
    LH_CHECK(finish_save());
    waited_s_ = context_.seconds_since(begun);
    context_.events.message(
        "warn", format("the checkpoint of step {} waited {:.1f} s for that of step {} to be written", context_.step(),
                       waited_s_, before));
  }
  context_.enter(beat_checkpoint);
  if (TrainingCompanion* companion = context_.options.companion) LH_CHECK(companion->save(context_.step()));
  const Status started = saver_.start(context_.group(), state_.view());
  if (!started.ok()) context_.events.message("warn", "no checkpoint: " + started.error().message());
  LH_CHECK(started);
  saved_step_ = context_.step();
  return context_.options.saver.asynchronous ? Status() : finish_save();
}

Status TrainingSaves::advance_save() {
  const auto whole = saver_.advance(context_.group());
  if (!whole.ok()) context_.events.message("warn", "no checkpoint: " + whole.error().message());
  LH_CHECK(whole);
  return *whole ? note_whole(**whole) : Status();
}

Status TrainingSaves::finish_save() {
  if (!saver_.busy()) return {};
  context_.enter(beat_checkpoint_write);
  const auto whole = saver_.finish(context_.group());
  if (!whole.ok()) context_.events.message("warn", "no checkpoint: " + whole.error().message());
  LH_CHECK(whole);
  return note_whole(*whole);
}

Status TrainingSaves::note_whole(const SavedCheckpoint& saved) {
  save_s_ = saved.seconds + saved.write_seconds;
  context_.events.write("checkpoint", fields_of(saved, waited_s_));
  return read_back_.want(context_.group(), saved, saver_.votes());
}

void TrainingSaves::pin() {
  if (const Status kept = saver_.pin(context_.group()); !kept.ok())
    context_.events.message("warn", "the ordered checkpoint goes as others do: " + kept.error().message());
}

Status TrainingSaves::advance_read_back() {
  LH_TRY(const std::optional<ReadBack> read, read_back_.advance(context_.group()));
  if (read) report_read_back(*read);
  return {};
}

Status TrainingSaves::finish_read_back() {
  if (!read_back_.busy()) return {};
  context_.enter("read_back");
  LH_TRY(const std::vector<ReadBack> all, read_back_.finish(context_.group()));
  for (const ReadBack& read : all) report_read_back(read);
  return {};
}

void TrainingSaves::report_read_back(const ReadBack& read) {
  Value fields = Value::make_table();
  fields.set("step", read.step);
  fields.set("path", read.path);
  fields.set("bytes", read.bytes);
  fields.set("read_s", read.seconds);
  if (!read.damage.empty()) fields.set("damage", read.damage);
  context_.events.write("read_back", std::move(fields));
  if (!read.damage.empty())
    context_.events.message("warn",
                            format("the checkpoint of step {} was read back and is not what was written; older ones "
                                   "stay: {}",
                                   read.step, read.damage));
}

Status TrainingSaves::copy_on_nodes(bool advance, bool due) {
  LocalCopies* copies = context_.options.local_copies;
  if (!copies) return {};
  if (advance) {
    const auto copied = copies->advance(context_.group());
    if (!copied.ok() && copied.error().code != ErrorCode::io) return copied.error();
    if (!copied.ok()) {
      context_.events.message("warn", "no copy on the nodes: " + copied.error().message());
    } else {
      Value fields = Value::make_table();
      fields.set("step", copied->step);
      fields.set("path", copied->path);
      fields.set("stall_s", copied->seconds);
      fields.set("write_s", copied->write_seconds);
      context_.events.write("local_copy", std::move(fields));
    }
  }
  if (!due || copies->busy()) return {};  // one that takes longer than the interval is not waited for
  context_.enter(beat_checkpoint);
  return copies->start(context_.group(), state_.view());
}

SaveSituation TrainingSaves::situation() {
  const LocalCopies* copies = context_.options.local_copies;
  return {context_.place(), context_.options.checkpoint_every_steps, saver_.busy(), copies && copies->busy(),
          read_back_.busy()};
}

void TrainingSaves::add_to(RankNotice& notice) {
  LocalCopies* copies = context_.options.local_copies;
  notice.writing = !saver_.ready();
  notice.copying = copies && !copies->ready();
  notice.reading = !read_back_.ready();
  notice.save_s = save_s_;
}

std::int64_t TrainingSaves::copy_key() const {
  const LocalCopies* copies = context_.options.local_copies;
  return copies && copies->busy() ? copies->step() : -1;
}

Status TrainingSaves::settle(bool save_goes_on, bool copy_goes_on) {
  LocalCopies* copies = context_.options.local_copies;
  const auto given_up = [&]() -> Status {
    if (!save_goes_on) LH_CHECK(saver_.give_up(give_up_deadline_ms));
    LH_CHECK(read_back_.give_up(give_up_deadline_ms));
    if (!copy_goes_on && copies) LH_CHECK(copies->give_up(give_up_deadline_ms));
    return {};
  };
  LH_CHECK(context_.group().agree(given_up()));
  LH_TRY(const std::int64_t newest, context_.checkpoints.newest_step(context_.group()));
  const std::int64_t here = context_.step();
  saved_step_ = saver_.busy() ? saver_.step() : newest == here ? here : -1;
  return {};
}

}  // namespace longhaul
