#include "worker/lead/failover/job_end_time.h"

#include <charconv>

#include "base/process/process.h"
#include "base/text/text.h"

namespace longhaul {
namespace {

constexpr std::int64_t longest_prolog_ms = 10 * 60'000, clocks_differ_ms = 60'000;

Result<std::int64_t> parse_time(const std::string& field) {
  for (const char* none : {"N/A", "NONE", "Unknown"})
    if (field == none) return 0;
  std::int64_t seconds = 0;
  const auto [end, wrong] = std::from_chars(field.data(), field.data() + field.size(), seconds);
  if (wrong != std::errc() || end != field.data() + field.size() || seconds < 0)
    return make_error(ErrorCode::unavailable, "squeue says '" + field.substr(0, 80) + "' where a time was asked for");
  return seconds * 1000;
}

}  // namespace

Result<JobTimes> parse_job_times(const std::string& text) {
  const std::vector<std::string> fields = split(trim(text), ' ');
  if (fields.size() != 2)
    return make_error(ErrorCode::unavailable, "squeue says '" + trim(text).substr(0, 80) + "' for two times");
  JobTimes times;
  LH_TRY(times.start_ms, parse_time(fields[0]));
  LH_TRY(times.end_ms, parse_time(fields[1]));
  return times;
}

SpawnSpec job_times_question(const std::string& job) {
  SpawnSpec squeue;
  squeue.argv = {"squeue", "--noheader", "--jobs=" + job, "--format=%S %e"};
  squeue.environment = {{"SLURM_TIME_FORMAT", "%s"}};
  return squeue;
}

Result<JobTimes> job_times(const std::string& job, std::int64_t deadline_ms) {
  LH_TRY(const RunOutput said, run_captured(job_times_question(job), deadline_ms));
  if (!said.status.success())
    return make_error(ErrorCode::unavailable, "squeue: " + said.status.text() + " " + trim(said.err));
  return parse_job_times(said.out);
}

std::optional<TimeLeft> time_left(const JobTimes& times, std::int64_t elapsed_ms, std::int64_t wall_ms) {
  if (times.end_ms <= 0) return std::nullopt;
  const std::int64_t by_clock_ms = times.end_ms - wall_ms;
  if (times.start_ms <= 0) return TimeLeft{by_clock_ms, 0};
  const std::int64_t by_length_ms = times.end_ms - times.start_ms - elapsed_ms;
  const std::int64_t off_ms = by_length_ms - by_clock_ms;
  if (off_ms >= -clocks_differ_ms && off_ms <= longest_prolog_ms) return TimeLeft{by_clock_ms, 0};
  return TimeLeft{by_length_ms, off_ms};
}

}  // namespace longhaul
