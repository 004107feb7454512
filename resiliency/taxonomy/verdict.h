// One verdict for one fault, out of everything that was observed of it.
//
// A fault shows in many places: a GPU falls off the bus, its rank ends with signal 6, the logs of all others complain
// of a closed connection, and the scheduler calls the job failed. All of it is true; the verdict is the observation
// nearest to the cause, and the others are its evidence. The order, strongest first (strength_of):
//
//   1. asked      what somebody meant: cancelled, preempted, wall time and time limits. They explain every death after.
//   2. agreed     exit codes 93, 16 and 17: the program judged itself.
//   3. sure       what speaks against a host, GPU or link for sure: the scheduler's node failures, XIDs, health checks.
//   4. happened   a root line of a log, a signal or a known exit code, a hang, a NaN, a full /dev/shm.
//   5. doubtful   XIDs that are mostly a program's error (13, 31, 43): they also follow when a process is killed.
//   6. bare       an end that says only that it ended: exit code 1, SIGTERM.
//   7. echo       cascades and confirmations in logs, and warnings. It accuses no host.
//
// Among observations of one strength the earlier wins, because what follows a fault looks just like one: whoever is
// left in a collective hangs, and is then killed. Those without a time come after those with; then logs before checks,
// the scheduler, detectors and ends; then the lower rank. Times must be of one clock (the lead's, when it heard of it):
// that is why a log line counts from the end of its process, and not from its own stamp, which may be local time.
//
// One step more: when the winner is an end or a detection, and the log of the same rank has a root line, or a check of
// the same host found what explains it, then that is the cause. A SIGKILL with an OOM kill on its host is one of
// memory. And one before: a rank whose own log says that it has stopped as it was asked to was not killed, so signal 9
// of the same rank is an echo; mpirun reports it of ranks that it has ended itself. And a file system that some hosts
// find silent, or that gives errors, is an echo where a rank was ended by SIGKILL, for it holds processes and kills
// none, and where a rank that lives has said what is wrong with it: had it been a file, its words would be of that
// class.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "resiliency/taxonomy/fault_table.h"
#include "resiliency/taxonomy/log_root.h"

namespace longhaul {

enum class ObservationSource { log, health, scheduler, detector, exit };  // in the order in which ties are broken
const char* to_string(ObservationSource source);

struct Observation {
  ObservationSource source = ObservationSource::exit;
  FaultClass fault = FaultClass::none;
  int rank = -1;           // -1: of no rank in particular
  std::string host;        // "": not known
  std::string what;        // a sentence: "rank 3 ended: killed by signal 9"
  std::int64_t at_ms = 0;  // 0: not known
  LineRole role = LineRole::root;
  bool widespread = false;  // log: most ranks say the same
};
Observation observe_log(const LogRoot& root);

enum class Strength { asked, agreed, sure, happened, doubtful, bare, echo, nothing };
Strength strength_of(const Observation& seen);

struct FaultRecord {
  FaultClass fault = FaultClass::none;
  FaultScope scope = FaultScope::job;
  FaultSeverity severity = FaultSeverity::note;
  int rank = -1;     // of the culprit; -1: none in particular
  std::string host;  // of the culprit; "": no host is accused or none is known
  std::string cause;
  std::string fingerprint;
  std::vector<std::string> evidence;  // "log: ...", every observation once, strongest first
};
// `none` where nothing was observed. `hosts`: names to take out of the fingerprint. When most ranks on several hosts
// say the same, the fault belongs to the job and names neither rank nor host.
FaultRecord verdict_of(std::vector<Observation> seen, const std::vector<std::string>& hosts = {});

}  // namespace longhaul
