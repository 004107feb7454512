// Faults as they show in many places at once, and the one verdict of each.
#include "resiliency/taxonomy/verdict.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>

#include "base/digest/philox.h"
#include "tests/support/observations.h"

namespace longhaul {
namespace {

Observation from_log(int rank, const std::string& host, const std::string& text, std::int64_t ended_ms = 0) {
  return observe_log(*root_of({{rank, host, text, ended_ms}}));
}
Observation killed_by(int rank, const std::string& host, int signal_number, std::int64_t at_ms = 0) {
  return testing::observe_exit(rank, host, 0, signal_number, true, at_ms);
}
Observation exited(int rank, const std::string& host, int code, std::int64_t at_ms = 0) {
  return testing::observe_exit(rank, host, code, 0, true, at_ms);
}

// The verdict, in whatever order it was heard of.
FaultRecord verdict_in_any_order(const std::vector<Observation>& seen) {
  const FaultRecord record = verdict_of(seen);
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    PhiloxSequence draw(seed, 0);
    std::vector<Observation> shuffled = seen;
    for (std::size_t i = shuffled.size(); i > 1; --i) std::swap(shuffled[i - 1], shuffled[draw.next_below(i)]);
    const FaultRecord other = verdict_of(shuffled);
    CHECK(other.fault == record.fault);
    CHECK(other.rank == record.rank);
    CHECK(other.host == record.host);
    CHECK(other.evidence.size() == record.evidence.size());
  }
  return record;
}

}  // namespace

TEST_CASE("nothing seen is no fault") {
  CHECK(verdict_of({}).fault == FaultClass::none);
  CHECK(verdict_of({exited(0, "n0", 0)}).fault == FaultClass::none);
}

TEST_CASE("a lost GPU explains the abort of its rank, the complaints of the others and the failed job") {
  const FaultRecord record = verdict_in_any_order({
      killed_by(5, "n1", SIGABRT, 1000),
      from_log(0, "n0", "NCCL WARN Connection closed by remote peer n1", 1100),
      testing::observe_scheduler(FaultClass::program),
      testing::observe_xid("n1", 3, 79, 1500),
      exited(0, "n0", 1, 1100),
  });
  CHECK(record.fault == FaultClass::gpu_lost);
  CHECK(record.scope == FaultScope::gpu);
  CHECK(record.severity == FaultSeverity::error);
  CHECK(record.host == "n1");
  CHECK(record.rank == 5);  // the one that was hit there
  CHECK(record.cause == "GPU 3: XID 79 (GPU has fallen off the bus)");
  REQUIRE(record.evidence.size() == 5);
  CHECK(record.evidence[0] == "health: " + record.cause);
}

TEST_CASE("the first to die is the culprit; those that launchers kill afterwards are not") {
  const FaultRecord record = verdict_in_any_order({
      killed_by(3, "n0", SIGKILL, 1000),
      killed_by(0, "n0", SIGKILL, 1400),
      killed_by(1, "n1", SIGTERM, 1300),
      from_log(2, "n1", "RuntimeError: peer is gone", 1200),
      exited(2, "n1", 1, 1200),
  });
  CHECK(record.fault == FaultClass::killed);
  CHECK(record.rank == 3);
  CHECK(record.fingerprint == "rank # ended: killed by signal 9");
}

TEST_CASE("the log of the rank that ended says why, and so does its host's memory") {
  for (const int rank : {0, 3}) {
    const FaultRecord by_log = verdict_in_any_order({
        killed_by(rank, "n0", SIGABRT, 1000),
        from_log(rank, "n0", "terminate called after throwing an instance of 'my::Error'", 1000),
        killed_by(1, "n0", SIGKILL, 1200),
    });
    CHECK(by_log.fault == FaultClass::exception);
    CHECK(by_log.rank == rank);
  }
  const Observation memory{ObservationSource::health, FaultClass::out_of_memory, -1, "n0", "1 OOM kill", 1700};
  const FaultRecord by_memory = verdict_in_any_order({killed_by(3, "n0", SIGKILL, 1000), memory});
  CHECK(by_memory.fault == FaultClass::out_of_memory);
  CHECK(by_memory.rank == 3);
  CHECK(by_memory.host == "n0");
  Observation elsewhere = memory;
  elsewhere.host = "n7";
  CHECK(verdict_in_any_order({killed_by(3, "n0", SIGKILL, 1000), elsewhere}).fault == FaultClass::killed);
}

TEST_CASE(
    "a rank that says that it has stopped as it was asked to was not killed: its launcher ended those that were left") {
  const char* const stopped = "longhaul-engine rank 1: stage s: asked to stop by SIGTERM: stopped after step 20 of 60";
  for (const Observation& end : {killed_by(1, "n0", SIGKILL), exited(1, "n0", 128 + SIGKILL), exited(1, "n0", 7)}) {
    const FaultRecord record = verdict_in_any_order({end, from_log(1, "n0", stopped)});
    CHECK(record.fault == FaultClass::interrupted);
    CHECK(record.rank == 1);
    CHECK(record.evidence.size() == 2);
  }
  CHECK(verdict_in_any_order({killed_by(0, "n0", SIGKILL), from_log(0, "n0", stopped)}).fault ==
        FaultClass::interrupted);
  // Of another rank it says nothing, and memory that ran out still comes before it.
  CHECK(verdict_in_any_order({killed_by(0, "n0", SIGKILL), from_log(1, "n0", stopped)}).fault == FaultClass::killed);
  const Observation memory{ObservationSource::health, FaultClass::out_of_memory, -1, "n0", "1 OOM kill", 1700};
  CHECK(verdict_in_any_order({memory, from_log(1, "n0", stopped)}).fault == FaultClass::out_of_memory);
}

TEST_CASE(
    "a file system that stands still kills nobody: who was killed meanwhile, or says what is wrong, is the culprit") {
  const auto silent_on = [](const char* host) {
    return Observation{ObservationSource::health, FaultClass::file_system, -1, host, "/scratch does not answer"};
  };
  for (const Observation& end : {killed_by(2, "n1", SIGKILL), exited(2, "n1", 128 + SIGKILL)}) {
    const FaultRecord record = verdict_in_any_order({silent_on("n0"), end, silent_on("n1"), silent_on("n2")});
    CHECK(record.fault == FaultClass::killed);
    CHECK(record.rank == 2);
    CHECK(record.host == "n1");
    CHECK(record.evidence.size() == 2);  // hosts that say the same are one
  }
  const Observation said =
      testing::observe_detector(FaultClass::exception, 2, "n1", "rank 2 has a fault that all survived");
  const FaultRecord survived = verdict_in_any_order({silent_on("n0"), said, silent_on("n1")});
  CHECK(survived.fault == FaultClass::exception);
  CHECK(survived.rank == 2);
  // Calls that fail and waits that do not end are of its making.
  CHECK(verdict_in_any_order({silent_on("n1"), exited(2, "n1", 1)}).fault == FaultClass::file_system);
  const Observation hang = testing::observe_detector(FaultClass::hang, 2, "n1", "rank 2 stands still in section data");
  CHECK(verdict_in_any_order({silent_on("n1"), hang}).fault == FaultClass::file_system);
}

TEST_CASE("hang or crash: whichever came first; the kill that ends a hang is no cause") {
  const Observation hang =
      testing::observe_detector(FaultClass::hang, 2, "n0", "rank 2 stands still in section data", 1000);
  CHECK(verdict_in_any_order({hang, killed_by(2, "n0", SIGKILL, 1500)}).fault == FaultClass::hang);
  const Observation stuck = testing::observe_detector(FaultClass::stuck_collective, 5, "n1", "rank 5 is behind", 2000);
  const FaultRecord record = verdict_in_any_order({stuck, killed_by(4, "n1", SIGSEGV, 1900)});
  CHECK(record.fault == FaultClass::crash);
  CHECK(record.rank == 4);
}

TEST_CASE("what somebody meant explains every death after it") {
  for (const FaultClass meant : {FaultClass::preempted, FaultClass::wall_time, FaultClass::cancelled_there}) {
    CAPTURE(to_string(meant));
    const FaultRecord record =
        verdict_in_any_order({testing::observe_scheduler(meant, 5000), killed_by(0, "n0", SIGKILL, 1000),
                              testing::observe_xid("n0", 0, 79, 900)});
    CHECK(record.fault == meant);
    CHECK(record.host == "");
  }
}

TEST_CASE("the codes that programs agreed on win over what else a dying program prints") {
  for (const auto& [code, fault] : {std::pair(93, FaultClass::no_retry), std::pair(16, FaultClass::rerun_to_compare),
                                    std::pair(17, FaultClass::failed_validation)}) {
    CAPTURE(code);
    const FaultRecord record = verdict_in_any_order(
        {exited(1, "n0", code, 1200), from_log(1, "n0", "RuntimeError: x", 1200), killed_by(0, "n0", SIGKILL, 1000)});
    CHECK(record.fault == fault);
    CHECK(record.rank == 1);
  }
}

TEST_CASE("a doubtful XID is the verdict only where the end itself says nothing") {
  const Observation xid = testing::observe_xid("n0", 1, 43, 900);
  CHECK(verdict_in_any_order({xid, exited(1, "n0", 1, 1000)}).fault == FaultClass::gpu_program);
  CHECK(verdict_in_any_order({xid, killed_by(1, "n0", SIGKILL, 1000)}).fault == FaultClass::killed);
  CHECK(verdict_in_any_order({testing::observe_xid("n0", 1, 45, 900), exited(1, "n0", 1, 1000)}).fault ==
        FaultClass::program);
  // A memory error that hit this one process explains its end.
  CHECK(verdict_in_any_order({testing::observe_xid("n0", 1, 94, 1100), killed_by(1, "n0", SIGABRT, 1000)}).fault ==
        FaultClass::gpu_memory_contained);
}

TEST_CASE("what a rank has said explains its own end, of the first rank as of any other") {
  for (const int rank : {0, 1}) {
    CAPTURE(rank);
    const Observation said = from_log(rank, "n0", "OSError: [Errno 116] Stale file handle: '/x'", 1200);
    CHECK(verdict_in_any_order({said, killed_by(rank, "n0", SIGABRT, 1000)}).fault == FaultClass::file_system);
  }
}

TEST_CASE("echoes accuse no host") {
  const FaultRecord record = verdict_in_any_order({from_log(0, "n0", "ORTE has lost communication with a daemon")});
  CHECK(record.fault == FaultClass::host_unreachable);
  CHECK(record.host == "");
}

TEST_CASE("what most ranks say is the job's, and names neither rank nor host") {
  std::vector<LogTail> tails;
  for (int rank = 0; rank < 4; ++rank)
    tails.push_back({rank, rank < 2 ? "n0" : "n1", "OSError: [Errno 116] Stale file handle: '/x'", 1000});
  const FaultRecord record = verdict_of({observe_log(*root_of(tails)), exited(0, "n0", 1, 1000)});
  CHECK(record.fault == FaultClass::file_system);
  CHECK(record.scope == FaultScope::job);
  CHECK(record.rank == -1);
  CHECK(record.host == "");
}

TEST_CASE("any observation alone gives a verdict with its own class, unless it is none") {
  for (const FaultInfo& info : fault_table) {
    CAPTURE(info.name);
    for (const auto source : {ObservationSource::log, ObservationSource::health, ObservationSource::scheduler,
                              ObservationSource::detector, ObservationSource::exit}) {
      const FaultRecord record = verdict_of({{source, info.fault, 3, "n0", "w"}});
      CHECK(record.fault == info.fault);
      CHECK(record.severity == info.severity);
      CHECK(record.evidence.size() == (info.fault == FaultClass::none ? 0U : 1U));
    }
  }
}

}  // namespace longhaul
