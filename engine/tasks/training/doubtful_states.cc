#include "engine/tasks/training/doubtful_states.h"

#include <algorithm>
#include <utility>

#include "base/files/files.h"
#include "base/process/fault_point.h"
#include "base/text/print.h"
#include "base/text/text.h"
#include "contracts/events/fault_event.h"
#include "engine/checkpoint/local/time_line.h"

namespace longhaul {

void report_faulted(const Clock& clock, const Launch& launch, int rank, const Error& fault,
                    const std::optional<SilentCorruption>& corruption) {
  EventWriter own(clock, launch.events_path, rank);
  Value fields = Value::make_table();
  fields.set("code", to_string(fault.code));
  fields.set("what", fault.message());
  fields.set("launch", static_cast<std::int64_t>(launch.launch));
  if (corruption) set_fields(fields, *corruption);
  own.write("faulted", std::move(fields));
}

namespace {

// Of the first rank: what was made after the sound step is abandoned, wherever it lies. Returns how many checkpoints.
Result<int> abandon_after(std::int64_t sound_step, Trainer& trainer, const CheckpointStore& checkpoints) {
  LH_TRY(const TimeLine line, read_time_line(checkpoints.folder(), checkpoints.retry()));
  const Value spikes = trainer.spike_guard().state();
  const std::int64_t to_step = std::max<std::int64_t>(0, sound_step);
  LH_CHECK(checkpoints.fence().look());
  LH_CHECK(make_directories(checkpoints.folder()));
  LH_CHECK(write_time_line(checkpoints.folder(), line.rolled_back(to_step, std::nullopt, *spikes.find("spent"),
                                                                  trainer.progress().step + 1)));
  return checkpoints.set_aside_after(to_step);
}

}  // namespace

void leave_doubtful_states(const SilentCorruption& found, Trainer& trainer, const CheckpointStore& checkpoints,
                           const LocalCopies* local_copies, CollectiveGroup& group, EventWriter& events) {
  if (found.weights_are_sound()) return;
  Result<int> moved = 0;
  if (group.is_first()) moved = abandon_after(found.sound_step, trainer, checkpoints);
  if (!moved.ok())
    events.message("warn", "states that may be wrong are still there: " + moved.error().message());
  else if (*moved > 0)
    events.message("warn", format("{} checkpoints after step {} may be wrong and were renamed to suspect-...", *moved,
                                  found.sound_step));
  const Status known = group.agree(moved.ok() ? Status() : Status(moved.error()));
  if (!known.ok()) print(stderr, "longhaul-engine rank {}: {}\n", group.rank(), known.error().message());
  if (fault_here(FaultPoint::local_copy_removing)) return;
  if (local_copies) local_copies->remove();
}

}  // namespace longhaul
