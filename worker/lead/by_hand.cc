#include "worker/lead/by_hand.h"

#include <unistd.h>

#include "base/files/file_query.h"
#include "base/files/files.h"
#include "base/text/text.h"
#include "contracts/records/attempt.h"

namespace longhaul {

Result<std::string> make_attempt_by_hand(const std::string& attempt_dir, const AllocationInfo& job,
                                         const Clock& clock) {
  LH_TRY(Attempt attempt, read_attempt(join_path(attempt_dir, "attempt.toml")));
  const std::string name = !job.scheduler_job.empty() ? format("{}-{}", job.scheduler_job, job.restarts)
                                                      : format("{}-{}", compact_utc_text(clock.wall_ms()), ::getpid());
  attempt.stage_dir = join_path(attempt.stage_dir, "by-hand/" + name);
  attempt.attempt_dir = join_path(attempt.stage_dir, "attempts/1");
  attempt.key = "by-hand." + name + "." + attempt.key;
  attempt.attempt = 1;
  attempt.doorbell.clear();
  attempt.at_end.clear();
  attempt.rounds_at_s.clear();
  LH_TRY(const bool there, is_there(attempt.attempt_dir));
  if (there)
    return make_error(ErrorCode::conflict, attempt.attempt_dir + " is there already", "start the script again");
  LH_CHECK(make_directories(attempt.attempt_dir));
  LH_CHECK(write_attempt(join_path(attempt.attempt_dir, "attempt.toml"), attempt));
  return attempt.attempt_dir;
}

}  // namespace longhaul
