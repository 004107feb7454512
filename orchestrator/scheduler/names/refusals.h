// What Slurm's messages mean when a submission is not accepted: one table of phrases for sbatch and for the library,
// from 20.11 to 26.05 (slurm/src/common/slurm_errno.c), beside the names of limits (reason_names.h), which slurmctld
// puts on a line of their own before the error.
#pragma once

#include <span>
#include <string>

#include "base/error/result.h"

namespace longhaul {

enum class Refusal {
  silence,  // nobody answered: the job may have been accepted
  busy,     // not now: the controller, a partition, a reservation, the administrator's pause
  limit,    // a count of jobs that passes when others have ended
  unknown,  // refused with a message that this table does not have, or for a limit of which it cannot be said
  never,    // this job is not accepted as it is asked for
};
const char* to_string(Refusal refusal);

struct RefusalPhrase {
  const char* phrase;
  Refusal means;
};
// In the order in which they are looked for.
std::span<const RefusalPhrase> refusal_phrases();
Refusal refusal_of(const std::string& message);

// A submission that was answered with `what` (with Slurm's message in it), as one of the errors of slurm_port.h:
// never -> invalid_input; all others -> unavailable, and their hint says which.
Error refusal_error(std::string what, Refusal refusal);
// Of an error that a submission was answered with: silence where its hint is none of those.
Refusal refusal_in(const Error& error);
// Also of a message that nobody knows: it may stand beside a job that is there.
bool may_have_been_accepted(const Error& error);

}  // namespace longhaul
