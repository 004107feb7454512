#include "autotune/trials/trial.h"

namespace longhaul {

const char* to_string(TrialOutcome outcome) {
  switch (outcome) {
    case TrialOutcome::waiting: return "waiting";
    case TrialOutcome::running: return "running";
    case TrialOutcome::measured: return "measured";
    case TrialOutcome::out_of_memory: return "out of memory";
    case TrialOutcome::hang: return "hang";
    case TrialOutcome::crash: return "crash";
    case TrialOutcome::refused: return "refused";
    case TrialOutcome::stopped: return "stopped";
    case TrialOutcome::lost: return "lost";
  }
  return "unknown";
}

bool is_over(TrialOutcome outcome) {
  return outcome != TrialOutcome::waiting && outcome != TrialOutcome::running;
}

}  // namespace longhaul
