// Which ends deserve another try, as tables.
#include "resiliency/retry_policy.h"

#include <doctest/doctest.h>

#include <csignal>

using namespace longhaul;

TEST_CASE("a record's end has one class") {
  struct Case {
    const char* outcome;
    int exit_code, signal;
    const char* cause;
    bool own;
    FaultClass expected;
  };
  const Case cases[] = {
      {"succeeded", 0, 0, "", true, FaultClass::none},
      {"failed", 3, 0, "bad file", true, FaultClass::bad_input},
      {"failed", 3, 0, "bad file", false, FaultClass::program},  // a command's exit codes mean nothing to us
      {"failed", 1, 0, "oops", true, FaultClass::program},
      {"failed", 0, SIGSEGV, "", true, FaultClass::crash},
      {"failed", 0, SIGKILL, "", true, FaultClass::killed},
      {"failed", 0, SIGTERM, "", true, FaultClass::interrupted},
      {"cancelled", 0, 0, "asked to stop", true, FaultClass::interrupted},
      {"failed", 1, 0, "the time limit of the request has passed", false, FaultClass::program},  // a program's words
      {"failed", 0, 0, "cannot write x: No space left on device", true, FaultClass::disk_full},
      {"failed", 1, 0, "cannot write x: Disk quota exceeded", true, FaultClass::disk_full},
      {"failed", 5, 0, "no such layout", true, FaultClass::bad_input},  // what the engine does not support
      {"failed", 5, 0, "no such layout", false, FaultClass::program},
      {"failed", 3, SIGKILL, "", true, FaultClass::killed},  // a signal says more than a code
      {"failed", 0, SIGABRT, "terminate called after std::bad_alloc", true, FaultClass::out_of_memory},
      {"failed", 1, 0, "CUDA error: out of memory", true, FaultClass::out_of_memory},
      {"failed", 0, SIGKILL, "slurmstepd: error: Detected 1 oom-kill event", true, FaultClass::out_of_memory},
      {"failed", 93, 0, "never again", false, FaultClass::no_retry},  // agreed on among programs, so for commands too
      {"failed", 16, 0, "", false, FaultClass::rerun_to_compare},
      {"failed", 17, 0, "", true, FaultClass::failed_validation},
      {"failed", 137, 0, "", false, FaultClass::killed},  // a shell's way of reporting a signal
      {"failed", 0, SIGINT, "", true, FaultClass::interrupted},
      {"failed", 0, SIGHUP, "", true, FaultClass::interrupted},
      {"failed", 0, SIGBUS, "", true, FaultClass::crash},
      {"cancelled", 0, 0, "asked to stop near the time limit", true, FaultClass::interrupted},
      {"succeeded", 1, SIGKILL, "out of memory", true, FaultClass::none},  // the outcome is what counts
  };
  for (const Case& c : cases) {
    CAPTURE(c.outcome);
    CAPTURE(c.cause);
    JobRecord record;
    record.outcome = c.outcome;
    record.exit_code = c.exit_code;
    record.signal = c.signal;
    record.cause = c.cause;
    CHECK(classify_end(record, c.own) == c.expected);
  }
  JobRecord limited;
  limited.outcome = "failed", limited.signal = SIGTERM, limited.ended_by = "time_limit";
  CHECK(classify_end(limited, true) == FaultClass::time_limit);
  for (const char* outcome : {"failed", "cancelled"}) {  // however its ranks ended: it was asked to leave in time
    JobRecord record;
    record.outcome = outcome;
    record.ended_by = "wall_time";
    record.signal = SIGKILL;
    CHECK(classify_end(record, true) == FaultClass::wall_time);
  }
}

TEST_CASE("the budget is the user's, but some causes stop at once and the same cause three times stops it, too") {
  using F = FaultClass;
  struct Case {
    const char* what;
    std::vector<PastEnd> ends;
    int retries;
    bool again;
  };
  const Case cases[] = {
      {"first failure, one retry", {{F::program, "a", false, ""}}, 1, true},
      {"second failure, one retry", {{F::program, "a", false, ""}, {F::program, "b", false, ""}}, 1, false},
      {"no retries", {{F::lost, "a", false, ""}}, 0, false},
      {"bad input", {{F::bad_input, "a", false, ""}}, 5, false},
      {"time limit", {{F::time_limit, "a", false, ""}}, 5, false},
      {"same cause three times",
       {{F::crash, "a", false, ""}, {F::crash, "a", false, ""}, {F::crash, "a", false, ""}},
       9,
       false},
      {"same text, other class",
       {{F::crash, "a", false, ""}, {F::killed, "a", false, ""}, {F::crash, "a", false, ""}},
       9,
       true},
      {"three times with progress",
       {{F::crash, "a", true, ""}, {F::crash, "a", true, ""}, {F::crash, "a", true, ""}},
       9,
       true},
  };
  for (const Case& c : cases) {
    CAPTURE(c.what);
    const RetryVerdict verdict = decide_retry(c.ends, {.application = c.retries});
    CHECK(verdict.again == c.again);
    CHECK(!verdict.reason.empty());
  }
}
