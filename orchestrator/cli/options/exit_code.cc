#include "orchestrator/cli/options/exit_code.h"

#include "contracts/control/round_exit.h"

namespace longhaul {

static_assert(round_exit_internal == static_cast<int>(ExitCode::internal));
static_assert(round_exit_system == static_cast<int>(ExitCode::system));
static_assert(round_exit_timeout == static_cast<int>(ExitCode::timeout));

const std::vector<ExitCodeText>& exit_code_texts() {
  static const std::vector<ExitCodeText> texts = {
      {ExitCode::ok, "ok", "done as asked", ""},
      {ExitCode::internal, "internal", "a mistake in longhaul itself", "report it with the message"},
      {ExitCode::usage, "usage", "the command line is wrong", "see `longhaul COMMAND --help`"},
      {ExitCode::invalid_input, "invalid_input",
       "a workflow, site file or setting is wrong, asks for what this build or the site cannot do, or for more than "
       "fits there; nothing was started",
       "every problem is printed with its place and a remedy"},
      {ExitCode::not_found, "not_found", "a file, run, stage or site that was named does not exist",
       "the message lists what is there"},
      {ExitCode::run_failed, "run_failed", "the run ended, and a stage of it failed",
       "`longhaul status` names the stage and the cause, `longhaul logs` shows its output; `longhaul resume` goes on"},
      {ExitCode::system, "system",
       "the machine refused: permission, full disk, damaged file, program that does not answer",
       "put it right, then `longhaul resume`"},
      {ExitCode::interrupted, "interrupted", "stopped by a signal, or the run was cancelled",
       "`longhaul resume` goes on"},
      {ExitCode::timeout, "timeout", "a wait passed its deadline", "the message says what was waited for"},
      {ExitCode::conflict, "conflict", "another controller drives this run", "watch it with `longhaul status`"},
  };
  return texts;
}

ExitCode exit_code_for(ErrorCode code) {
  switch (code) {
    case ErrorCode::internal: return ExitCode::internal;
    case ErrorCode::invalid_input: return ExitCode::invalid_input;
    case ErrorCode::unsupported: return ExitCode::invalid_input;
    case ErrorCode::not_found: return ExitCode::not_found;
    case ErrorCode::io: return ExitCode::system;
    case ErrorCode::corrupt: return ExitCode::system;
    case ErrorCode::unavailable: return ExitCode::system;
    case ErrorCode::timeout: return ExitCode::timeout;
    case ErrorCode::aborted: return ExitCode::interrupted;
    case ErrorCode::conflict: return ExitCode::conflict;
  }
  return ExitCode::internal;
}

}  // namespace longhaul
