// TrainingLoop: checkpoints that are read back before older ones go (read_back.h).
#include "base/text/text.h"
#include "engine/train/loop/training_loop.h"

namespace longhaul {
namespace {

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

void TrainingLoop::report_save(const SavedCheckpoint& saved) {
  save_seconds_ = saved.seconds + saved.write_seconds;
  events_.write("checkpoint", fields_of(saved, waited_));
}

Status TrainingLoop::advance_read_back() {
  LH_TRY(const std::optional<ReadBack> read, read_back_.advance(trainer_.group()));
  if (read) report_read_back(*read);
  return {};
}

Status TrainingLoop::finish_read_back() {
  if (!read_back_.busy()) return {};
  section("read_back");
  LH_TRY(const std::vector<ReadBack> all, read_back_.finish(trainer_.group()));
  for (const ReadBack& read : all) report_read_back(read);
  return {};
}

void TrainingLoop::report_read_back(const ReadBack& read) {
  Value fields = Value::make_table();
  fields.set("step", read.step);
  fields.set("path", read.path);
  fields.set("bytes", read.bytes);
  fields.set("read_s", read.seconds);
  if (!read.damage.empty()) fields.set("damage", read.damage);
  events_.write("read_back", std::move(fields));
  if (!read.damage.empty())
    events_.message("warn", format("the checkpoint of step {} was read back and is not what was written; older ones "
                                   "stay: {}",
                                   read.step, read.damage));
}

}  // namespace longhaul
