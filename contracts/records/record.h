// record.json: how a job ended, written once by its lead (created exclusively). Of all witnesses of a job's end this
// one is trusted first; "no record" means running, or lost if the lead's process is gone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/process/process.h"
#include "base/value/value.h"

namespace longhaul {

struct JobRecord {
  static constexpr int format = 1;
  std::string key;  // of the submission
  int attempt = 1;
  std::string host;
  std::int64_t started_ms = 0;
  std::int64_t ended_ms = 0;
  std::string outcome;  // "succeeded" | "failed" | "cancelled"
  int exit_code = 0;    // of the rank that ended the launch
  int signal = 0;
  std::string cause;  // one sentence: what, which rank, and the end of its log
  int launches = 0;
  // "wall_time": the scheduler has said that its time is nearly over; "time_limit": the stage's own limit has passed;
  // "host_lost"; "fault"; "preempted": the scheduler has moved its end up; "" otherwise.
  std::string ended_by;
  std::int64_t step = -1;  // newest of any rank, -1: none was seen
  // Of the newest whole checkpoint that counts (resiliency/saved_progress.h), -1: there is none; nullopt: not said.
  std::optional<std::int64_t> saved_step;
  std::string scheduler_job;            // "1234", "1234_7"; "" where there is none
  int restarts = 0;                     // how often the scheduler had queued the job again
  std::string nodes;                    // in the scheduler's notation
  std::vector<std::string> nodes_left;  // those of them that the lead did not use any more, for what they had done
};
std::string record_file_name(int restarts);  // "record.json", "record-1.json" after the first restart of the job
std::string claim_file_name(int restarts);
std::string record_text(const JobRecord& record);  // as it stands in the file
Result<JobRecord> record_from_text(const std::string& text, const std::string& name);
Status write_record(const std::string& path, const JobRecord& record);  // conflict: there is one already
Result<JobRecord> read_record(const std::string& path);                 // not_found: not ended

// claim.json: the lead of an attempt, created exclusively before it does anything. A second lead of the same attempt
// finds it and ends: one job for every attempt.
struct LeadClaim {
  std::string key;
  std::string host;
  ProcessId process;
  std::int64_t started_ms = 0;
  std::string scheduler_job;  // "" where there is none
};
Status write_claim(const std::string& path, const LeadClaim& claim);  // conflict: somebody leads it already
Result<LeadClaim> read_claim(const std::string& path);

}  // namespace longhaul
