// Exit codes, signals, XIDs and Slurm's words, each to one class.
#include <doctest/doctest.h>

#include <csignal>
#include <set>
#include <string>

#include "resiliency/taxonomy/exit_class.h"
#include "resiliency/taxonomy/fault_table.h"
#include "resiliency/taxonomy/xid_class.h"

namespace longhaul {

TEST_CASE("exit codes that programs have agreed on hold for everybody, the engine's own for the engine") {
  for (const bool own : {true, false}) {
    CAPTURE(own);
    CHECK(class_of_exit_code(0, own) == FaultClass::none);
    CHECK(class_of_exit_code(1, own) == FaultClass::program);
    CHECK(class_of_exit_code(93, own) == FaultClass::no_retry);
    CHECK(class_of_exit_code(16, own) == FaultClass::rerun_to_compare);
    CHECK(class_of_exit_code(17, own) == FaultClass::failed_validation);
    CHECK(class_of_exit_code(126, own) == FaultClass::cannot_execute);
    CHECK(class_of_exit_code(127, own) == FaultClass::cannot_execute);
    CHECK(class_of_exit_code(128, own) == FaultClass::program);
    CHECK(class_of_exit_code(128 + SIGKILL, own) == FaultClass::killed);
    CHECK(class_of_exit_code(128 + SIGTERM, own) == FaultClass::interrupted);
    CHECK(class_of_exit_code(128 + SIGSEGV, own) == FaultClass::crash);
    CHECK(class_of_exit_code(255, own) == FaultClass::program);
    for (const int refused : {3, 5})
      CHECK(class_of_exit_code(refused, own) == (own ? FaultClass::bad_input : FaultClass::program));
  }
  CHECK(group_of(FaultClass::no_retry) == FaultGroup::hopeless);
}

TEST_CASE("every signal has a class") {
  CHECK(class_of_signal(0) == FaultClass::none);
  CHECK(class_of_signal(SIGKILL) == FaultClass::killed);
  for (const int reported : {SIGTERM, SIGINT, SIGHUP}) CHECK(class_of_signal(reported) == FaultClass::interrupted);
  for (const int raised : {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGTRAP})
    CHECK(class_of_signal(raised) == FaultClass::crash);
}

TEST_CASE("an XID of an application is restarted where it is, one of a device is left") {
  struct Case {
    int xid;
    FaultClass fault;
    RestartTier tier;
    Accusation accuses;
  };
  const Case cases[] = {
      {13, FaultClass::gpu_program, RestartTier::in_job, Accusation::doubtful},
      {31, FaultClass::gpu_program, RestartTier::in_job, Accusation::doubtful},
      {43, FaultClass::gpu_program, RestartTier::in_job, Accusation::doubtful},
      {45, FaultClass::gpu_event, RestartTier::skip, Accusation::never},
      {48, FaultClass::gpu_memory_error, RestartTier::swap, Accusation::sure},
      {62, FaultClass::gpu_needs_reset, RestartTier::swap, Accusation::sure},
      {63, FaultClass::gpu_remap_pending, RestartTier::skip, Accusation::never},
      {64, FaultClass::gpu_remap_failed, RestartTier::swap, Accusation::sure},
      {74, FaultClass::nvlink, RestartTier::swap, Accusation::sure},
      {79, FaultClass::gpu_lost, RestartTier::swap, Accusation::sure},
      {92, FaultClass::gpu_memory_degrading, RestartTier::skip, Accusation::never},
      {94, FaultClass::gpu_memory_contained, RestartTier::in_job, Accusation::doubtful},
      {95, FaultClass::gpu_memory_error, RestartTier::swap, Accusation::sure},
      {119, FaultClass::gpu_needs_reset, RestartTier::swap, Accusation::sure},
      {154, FaultClass::gpu_event, RestartTier::skip, Accusation::never},
      {9999, FaultClass::gpu_event, RestartTier::skip, Accusation::never},
  };
  for (const Case& c : cases) {
    CAPTURE(c.xid);
    CHECK(class_of_xid(c.xid) == c.fault);
    CHECK(info_of(c.fault).tier == c.tier);
    CHECK(info_of(c.fault).accuses == c.accuses);
  }
  int before = 0;
  for (const XidInfo& info : xid_table) {
    CHECK(info.xid > before);  // in order, none twice
    before = info.xid;
    // What the catalogue wants reset cannot be cured by starting on the same device again.
    if (std::string(info.action) == "RESET_GPU") CHECK(info_of(info.fault).tier == RestartTier::swap);
  }
}

TEST_CASE("any recovery action but none is a fault") {
  CHECK(class_of_recovery_action(0) == FaultClass::none);
  for (const int action : {1, 2, 3, 4, 5, 6, 99}) {
    CAPTURE(action);
    CHECK(info_of(class_of_recovery_action(action)).accuses == Accusation::sure);
  }
}

}  // namespace longhaul
