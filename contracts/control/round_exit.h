// What the exit code of a round of the controller (Attempt::at_end, `longhaul tick`) means to the lead that waits for
// it.
#pragma once

namespace longhaul {

// The same numbers as orchestrator/cli/options/exit_code.h, which users know.
inline constexpr int round_exit_internal = 1, round_exit_system = 6, round_exit_timeout = 8;

// The machine refused: the same round may go well in a moment. Anything else is an answer: it was made, the run has
// ended, another controller drives it, or it is refused for good.
inline bool round_may_be_repeated(int exit_code) {
  return exit_code == round_exit_internal || exit_code == round_exit_system || exit_code == round_exit_timeout;
}

}  // namespace longhaul
