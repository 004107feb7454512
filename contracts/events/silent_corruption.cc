#include "contracts/events/silent_corruption.h"

namespace longhaul {

void set_fields(Value& fields, const SilentCorruption& found) {
  fields.set("class", silent_corruption_class);
  fields.set("culprit", static_cast<std::int64_t>(found.rank));
  if (found.other >= 0) fields.set("other", static_cast<std::int64_t>(found.other));
  fields.set("step", found.step);
  fields.set("sound_step", found.sound_step);
  fields.set("decided", found.decided);
  fields.set("finding", found.what);
}

std::optional<SilentCorruption> silent_corruption_of(const Value& fields) {
  if (fields.get_string("class") != silent_corruption_class) return std::nullopt;
  SilentCorruption found;
  found.rank = static_cast<int>(fields.get_integer("culprit", -1));
  found.other = static_cast<int>(fields.get_integer("other", -1));
  found.step = fields.get_integer("step", -1);
  found.sound_step = fields.get_integer("sound_step", -1);
  found.decided = fields.get_bool("decided", true);
  found.what = fields.get_string("finding");
  if (found.rank < 0) return std::nullopt;
  return found;
}

}  // namespace longhaul
