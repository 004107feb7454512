// Runs a program that nobody vouches for, such as code that a model wrote, to its end: within limits, and where the
// kernel gives namespaces apart from the host.
//
// Isolated means: a user of its own (root becomes nobody, 65534), the file systems read-only but for an empty /tmp in
// memory that goes with it; /home, /root, /run and /dev empty (null, zero and urandom are there), unless the program
// itself lies there; no network; processes of its own, which all end with the first. What is printed is read up to a
// bound. The environment is the one below and nothing of the caller's.
//
// It is no virtual machine: whoever finds a hole of the kernel gets through, and what everyone may read outside of the
// hidden folders can be read.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/process/process.h"

namespace longhaul {

struct ConfinedLimits {
  std::int64_t deadline_ms = 3'000;         // by the clock; a program that waits uses no processor
  std::int64_t processor_s = 10;            // RLIMIT_CPU of each process
  std::uint64_t memory_bytes = 1ULL << 30;  // RLIMIT_AS of each process
  std::uint64_t files_bytes = 16ULL << 20;  // of all files in its /tmp; RLIMIT_FSIZE of each
  std::int64_t processes = 16;              // RLIMIT_NPROC, threads counted too: Linux 5.14 and later, isolated
  std::int64_t descriptors = 64;            // RLIMIT_NOFILE
  std::size_t output_bytes = 64 << 10;      // of stdout and stderr together
};

struct ConfinedProgram {
  std::vector<std::string> argv;  // argv[0] is a path
  std::string input;              // its stdin
  std::vector<std::pair<std::string, std::string>> environment;
  ConfinedLimits limits;
  // false: limits alone; then files can be written and processes that leave the group go on behind the deadline.
  bool isolated = true;
};

enum class ConfinedEnd { exited, deadline, output };  // by itself (or a limit's signal), or killed for the other two
struct ConfinedRun {
  ConfinedEnd end = ConfinedEnd::exited;
  ExitStatus status;     // of the program; a signal's is 128 + its number where it is isolated, as a shell has it
  std::string out, err;  // as far as they were read
};

// unavailable: the kernel does not give a part of the isolation, which the error names; the program has not run then.
// not_found: there is no such program, or its user may not run it. Every process of an isolated program has ended when
// this returns. Thread-safe.
Result<ConfinedRun> run_confined(const ConfinedProgram& program);

// What an isolated program would not have here: limits that this kernel does not enforce. Empty: all are.
std::vector<std::string> limits_not_enforced();

}  // namespace longhaul
