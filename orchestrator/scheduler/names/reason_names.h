// Slurm's names for why a job waits, or why a limit refuses it, from 20.11 to 26.05: single ones as a table, those of
// limits by their grammar, [QOS|Assoc](Grp|Max|Min)<what>[PerJob|PerNode|PerUser|PerAccount|Minutes|RunMinutes][Limit]
// (slurm/src/common/job_state_reason.c has them all; tests/golden/slurm/reasons.tsv lists them with what they mean).
#pragma once

#include <span>
#include <string>

namespace longhaul {

enum class WaitReason {
  passes,         // by itself: nodes, priority, time, a dependency, a limit that other jobs use up
  person,         // somebody has to let it go, or somebody's work has to end
  never,          // this job does not start as it is asked for, and waits all the same
  budget,         // hours are used up: it starts when the site counts anew or gives more
  given_up,       // Slurm has tried often enough, and holds it for good: another job may start
  no_such_limit,  // a name that is not known
};

struct SlurmReasonName {
  const char* name;
  WaitReason means;
  const char* advice;  // for a person, "" where it passes
};
std::span<const SlurmReasonName> slurm_reason_names();

// Of "Resources", "QOSMaxNodePerJobLimit", "ReqNodeNotAvail, UnavailableNodes:n1", "(launch failed requeued held)".
WaitReason wait_reason(const std::string& reason);
// One sentence for a person: what it waits for and what can be done; "" where it passes by itself or is not known.
std::string wait_advice(const std::string& reason);

// What a limit by this name means for a submission that it refuses.
enum class LimitKind {
  none,    // not the name of a limit
  count,   // of jobs that wait or run: it passes when others end
  size,    // of this job, by itself: it does not pass
  budget,  // hours that are used up, or would be: who knows
};
LimitKind limit_kind(const std::string& name);

}  // namespace longhaul
