// Room base/process
// Child processes with one owner, log lines, and the named points where a test makes a program fail.
// Start with process.h; process_signal.h signals a process known from a file, program_trust.h checks PATH.
// log.h writes the log lines of all programs; fault_point.h is off unless a test hands over a plan.
// It knows no TOML or JSON: what a process prints is parsed by whoever started it.
//
// Child processes with one owner each. Children start with a closed set of descriptors and, if asked, in a session of
// their own so that they outlive the starter.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error/result.h"

namespace longhaul {

// Names one process for good: pids are used again, (pid, start time) is not.
struct ProcessId {
  pid_t pid = -1;
  std::uint64_t start_ticks = 0;  // field 22 of /proc/<pid>/stat, clock ticks since boot
  bool operator==(const ProcessId&) const = default;
};
// The identity of a live process; not_found if there is none (a zombie counts as ended).
Result<ProcessId> identify_process(pid_t pid);
bool process_alive(const ProcessId& id);

struct SpawnSpec {
  std::vector<std::string> argv;                                 // argv[0] is looked up in PATH if it has no slash
  std::vector<std::pair<std::string, std::string>> environment;  // added to (or replacing in) the inherited one
  std::vector<std::string> environment_removed;                  // "NAME", or "PREFIX_*"; not what is added above
  std::vector<std::string> environment_kept;                     // exceptions from those prefixes
  std::string working_directory;                                 // empty: inherited
  std::string stdout_path, stderr_path;                          // appended to; empty: inherited
  int stdin_fd = -1, stdout_fd = -1;  // descriptors of the caller to take instead; stdin is /dev/null otherwise
  bool detached = false;              // own session; not a child in any later wait (double fork)
  bool own_group = false;             // own process group, so that kill(-pid) ends all of it
  bool dies_with_starter = false;     // SIGKILL when the starting thread ends (Linux); not inherited by its children
};

// Starts a program; the exec itself is checked (a missing program is an error here, not an exit code later).
// For detached programs the pid is that of the program itself.
Result<pid_t> spawn(const SpawnSpec& spec);

struct ExitStatus {
  int code = -1;   // exit code, or -1
  int signal = 0;  // signal number, or 0
  bool success() const { return code == 0 && signal == 0; }
  std::string text() const;  // "exit code 3", "killed by signal 9 (Killed)"
};
// Non-blocking: nullopt while it runs. The child is reaped.
Result<std::optional<ExitStatus>> poll_exit(pid_t pid);

// Runs a program to its end with a deadline and returns its output. On timeout the group is killed, and also where it
// writes more than `output_max` (unavailable): a broken wrapper of a site's command must not fill the memory.
inline constexpr std::size_t program_output_max = 64 << 20;
struct RunOutput {
  ExitStatus status;
  std::string out, err;
};
Result<RunOutput> run_program(const std::vector<std::string>& argv, std::int64_t deadline_ms);  // stderr: inherited
// The same with an environment and a folder of its own; stderr is returned as well. What `spec` says about output and
// ownership is not used.
Result<RunOutput> run_captured(SpawnSpec spec, std::int64_t deadline_ms, std::size_t output_max = program_output_max);

std::string host_name();
// The path of the running program, with symbolic links resolved.
std::string own_program_path();

}  // namespace longhaul
