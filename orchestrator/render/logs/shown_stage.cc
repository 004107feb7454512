#include "orchestrator/render/logs/shown_stage.h"

#include <tuple>
#include <vector>

#include "base/error/diagnostics.h"
#include "base/text/text.h"
#include "contracts/settings/job/resumable.h"

namespace longhaul {
namespace {

bool is_training(const StageStatus& stage) {
  return trains(stage.kind);
}

// How much a stage is what somebody wants to see; 0: not at all.
int interest(StageState state) {
  switch (state) {
    case StageState::running: return 6;
    case StageState::failed: return 5;
    case StageState::cancelled: return 4;
    case StageState::succeeded: return 3;
    case StageState::submitted: return 2;
    case StageState::cached: return 1;
    case StageState::waiting:
    case StageState::ready:
    case StageState::skipped: break;
  }
  return 0;
}

// Larger: rather this one.
std::tuple<int, bool, std::int64_t> rank_of(const StageStatus& stage) {
  const bool failed = stage.state == StageState::failed;
  return {interest(stage.state), stage.state == StageState::running && is_training(stage),
          failed               ? -stage.ended_ms
          : stage.ended_ms > 0 ? stage.ended_ms
                               : stage.started_ms};
}

}  // namespace

const StageStatus* meant_stage(const RunStatus& status) {
  const StageStatus* meant = nullptr;
  for (const StageStatus& stage : status.stages) {
    if (interest(stage.state) == 0 || (stage.state == StageState::cancelled && stage.attempts == 0)) continue;
    if (!meant || rank_of(stage) >= rank_of(*meant)) meant = &stage;
  }
  return meant;
}

Result<StageStatus> asked_stage(const RunStatus& status, const std::string& name) {
  if (name.empty()) {
    if (const StageStatus* stage = meant_stage(status)) return *stage;
    return make_error(ErrorCode::not_found, "no stage of the run has been started", "longhaul status says what waits");
  }
  if (const StageStatus* stage = status.find(name)) return *stage;
  std::vector<std::string> names, below;
  for (const StageStatus& stage : status.stages) {
    names.push_back(stage.id);
    if (starts_with(stage.id, name + "/")) below.push_back(stage.id);
  }
  if (!below.empty())
    return make_error(ErrorCode::not_found, "stage '" + name + "' has variants", "name one: " + join(below, " "));
  const std::string nearest = nearest_word(name, names);
  return make_error(ErrorCode::not_found, "the run has no stage '" + name + "'",
                    nearest.empty() ? "its stages: " + join(names, ", ") : "did you mean '" + nearest + "'?");
}

}  // namespace longhaul
