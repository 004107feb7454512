// What earlier attempts of a stage left behind when their lead was lost: processes and staging folders. Ended and
// removed before the next attempt starts, so that no two attempts of a stage write at the same time.
#pragma once

#include <string>

#include "base/system/clock.h"
#include "contracts/records/attempt.h"

namespace longhaul {

// Kills (SIGKILL) every process of ours whose environment carries LONGHAUL_ATTEMPT_KEY=`key`, and waits until all are
// gone; timeout if one does not go within 10 s. Returns how many there were.
Result<int> end_processes_of(const std::string& key, Clock& clock);

// For all attempts of the stage before this one.
Status clear_earlier_attempts(const Attempt& attempt, Clock& clock);

}  // namespace longhaul
