#include "worker/lead/failover/allocation_end.h"

#include "base/files/files.h"

namespace longhaul {

std::vector<std::string> allocation_end_arguments(const std::string& job, bool followed) {
  if (followed) return {"scancel", job};
  return {"scancel", "--state=RUNNING", job};
}

bool has_later_attempt(const Attempt& attempt) {
  return file_exists(join_path(parent_path(attempt.attempt_dir), std::to_string(attempt.attempt + 1)));
}

}  // namespace longhaul
