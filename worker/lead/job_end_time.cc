#include "worker/lead/job_end_time.h"

#include <charconv>

#include "base/process.h"
#include "base/text.h"

namespace longhaul {

Result<std::int64_t> parse_job_end_time(const std::string& text) {
  const std::string word = trim(text);
  for (const char* none : {"N/A", "NONE", "Unknown"})
    if (word == none) return 0;
  std::int64_t seconds = 0;
  const auto [end, wrong] = std::from_chars(word.data(), word.data() + word.size(), seconds);
  if (wrong != std::errc() || end != word.data() + word.size() || seconds < 0)
    return make_error(ErrorCode::unavailable, "squeue says '" + word.substr(0, 80) + "' where a time was asked for");
  return seconds * 1000;
}

Result<std::int64_t> job_end_time_ms(const std::string& job, std::int64_t deadline_ms) {
  SpawnSpec squeue;
  squeue.argv = {"squeue", "--noheader", "--jobs=" + job, "--format=%e"};
  squeue.environment = {{"SLURM_TIME_FORMAT", "%s"}};
  LH_TRY(const RunOutput said, run_captured(std::move(squeue), deadline_ms));
  if (!said.status.success())
    return make_error(ErrorCode::unavailable, "squeue: " + said.status.text() + " " + trim(said.err));
  return parse_job_end_time(said.out);
}

}  // namespace longhaul
