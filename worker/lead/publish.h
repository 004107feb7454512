// From a staging folder to a published artifact: digests, manifest, sync, one rename. Whole or absent.
#pragma once

#include <string>

#include "base/system/clock.h"
#include "contracts/records/attempt.h"
#include "contracts/records/launch.h"
#include "contracts/records/manifest.h"
#include "contracts/tasks/task.h"

namespace longhaul {

// The artifact of this task if an earlier attempt of the stage has published it already (same key): not_found if there
// is none; conflict if the folder holds another task's artifact.
Result<Manifest> published_artifact(const Attempt& attempt, const Task& task);

// Publishes what a launch has made in its staging folder as the stage's `out`, unless a later launch owns the stage's
// state (ErrorCode::conflict). When an earlier attempt with the same key was faster, its artifact is kept and returned.
Result<Manifest> publish_artifact(const Attempt& attempt, const Task& task, const Launch& launch, const Clock& clock);

}  // namespace longhaul
