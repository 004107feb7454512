// Whether the stage has gone on without this job: a later attempt that a lead has claimed works in the same folders.
#pragma once

#include <cstdint>
#include <string>

#include "base/system/clock.h"
#include "contracts/records/attempt.h"

namespace longhaul {

// The number of a later attempt with a claim, 0: none. One that is only queued has none.
int claimed_later_attempt(const Attempt& attempt);

// Looks at once and then every half minute.
class LaterAttempt {
 public:
  LaterAttempt(const Attempt& attempt, const Clock& clock) : attempt_(attempt), clock_(clock) {}
  int look();

 private:
  const Attempt& attempt_;
  const Clock& clock_;
  std::int64_t next_look_ns_ = 0;
};

}  // namespace longhaul
