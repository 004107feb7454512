// The events by which a lead reports a fault: `fault` when it is known and what follows is decided, `recovered` when
// the ranks of the next launch have completed a step again. Written to events.jsonl (contracts/events/event.h); read by
// `longhaul faults`, status, report and the accounting of time. Names of classes, scopes and severities are those of
// resiliency/taxonomy/fault_table.h and resiliency/taxonomy/fault_scope.h; here they are text, so that a reader of
// another version meets an unknown name and no wrong one.
#pragma once

#include <cstdint>
#include <string>

#include "base/value/value.h"
#include "contracts/events/event.h"

namespace longhaul {

inline constexpr const char* fault_event_kind = "fault";
// Of a training that ends before its last step, by its first rank: step, why, saved (whether a checkpoint of it is
// there).
inline constexpr const char* stopped_event_kind = "stopped";
inline constexpr const char* stopped_as_asked = "asked";
inline constexpr const char* stopped_by_own_timer = "time";
inline constexpr const char* recovered_event_kind = "recovered";

// A number below 0 is not known; it is left out of the line.
struct FaultEvent {
  int launch = 0;           // in which it happened, from 1
  std::string fault_class;  // key "class": "killed", "gpu_off_bus", ...
  std::string scope;        // "rank" | "gpu" | "host" | "link" | "job" | "user"
  std::string severity;     // "note" | "warning" | "error" | "fatal"
  int rank = -1;            // of the culprit. Stands where every event has the rank that wrote it
  std::string host;         // of the culprit
  std::int64_t step = -1;   // newest optimizer step of any rank
  std::string section;      // of the culprit's heartbeat
  std::string cause;        // one sentence for people
  std::string fingerprint;  // the cause without what differs from time to time; budgets count by it
  std::string tier;         // "skip" | "in_process" | "in_job" | "swap" | "shrink" | "new_job" | "stop"
  std::string next;         // what is done about it, in words: "launch 3 without n7"
  std::string reason;       // why so: "retry 1 of 5 (infrastructure)"
  double detect_s = -1;     // from the last recorded activity of the culprit to this event
};
Value to_value(const FaultEvent& event);
FaultEvent fault_event_from_value(const Value& value);  // what is missing keeps its default
FaultEvent fault_event_of(const Event& event);          // read from events.jsonl, where parse_event took `rank` out

// Where the time between the fault and the first completed step went. Seconds; the parts add up to the whole.
struct RecoveredEvent {
  int launch = 0;            // that recovered, from 1; an in-process recovery stays in its launch
  double detect_s = -1;      // fault to verdict
  double stop_s = -1;        // until the last rank of the faulty launch was gone
  double queue_s = -1;       // of another job: until its lead was there; not of recoveries within one
  double start_s = -1;       // until every rank beat
  double load_s = -1;        // until the checkpoint was loaded
  double first_step_s = -1;  // until a step was completed
  double total_s = -1;
  std::int64_t lost_steps = -1;  // completed before the fault and done again
  // Of the newest of the faults that it took: from its finding until the last rank was gone; a part of stop_s.
  double teardown_s = -1;
};
Value to_value(const RecoveredEvent& event);
RecoveredEvent recovered_event_from_value(const Value& value);

}  // namespace longhaul
