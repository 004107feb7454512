// TrainingLoop: checkpoints that are read back before older ones go (read_back.h).
#include "base/text/text.h"
#include "engine/train/loop/training_loop.h"

namespace longhaul {

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
