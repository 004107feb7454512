// Programs in Python that a model wrote, run with their unit tests apart from the host
// (base/process/confined_program.h).
//
// A program passes where it and the tests behind it come to their end without an error. It is bounded by seconds of a
// processor, so that a slow machine judges as a fast one does, and by a deadline for what waits.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/process/confined_program.h"
#include "contracts/events/event.h"

namespace longhaul {

struct ProgramVerdict {
  bool passed = false;
  std::string why;  // where it did not: the last line of its errors, "the deadline passed", ...
};

struct TestedProgram {
  std::string program, tests;
};

class ProgramTests {
 public:
  static ConfinedLimits usual_limits();
  // `python`: a path, or a name in /usr/local/bin, /usr/bin or /bin. Runs it once: unavailable, where it cannot be run
  // apart from the host here, with the reason.
  static Result<ProgramTests> create(const std::string& python, const ConfinedLimits& limits = usual_limits());

  Result<ProgramVerdict> judge(const TestedProgram& program) const;
  // All of them, `together` at a time, in their order. `between` is called by the calling thread now and then.
  Result<std::vector<ProgramVerdict>> judge_all(const std::vector<TestedProgram>& programs, int together,
                                                const std::function<void(std::size_t done)>& between = {}) const;

 private:
  ProgramTests(std::string python, const ConfinedLimits& limits) : python_(std::move(python)), limits_(limits) {}
  std::string python_;
  ConfinedLimits limits_;
};

// An event `not_limited` for each limit of programs that this kernel does not enforce.
void report_missing_limits(EventWriter& events);

}  // namespace longhaul
