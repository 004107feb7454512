// Room for the record of a job on a disk, or in a quota, that is full when the job ends: often the very reason why it
// does.
#pragma once

#include "contracts/records/attempt.h"

namespace longhaul {

// Writes attempt.reserve_path(), once: bytes that the file system has given out and not promised alone.
Status keep_reserve(const Attempt& attempt);
void give_up_reserve(const Attempt& attempt);

// Whether the record that is there is of the same life of this job.
bool is_record_of(const Attempt& attempt, const JobRecord& record);

}  // namespace longhaul
