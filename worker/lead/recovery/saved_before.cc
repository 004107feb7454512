#include "worker/lead/recovery/saved_before.h"

#include <optional>
#include <string>

#include "base/files/files.h"
#include "base/text/text.h"

namespace longhaul {
namespace {

constexpr int restarts_looked_at = 64;  // of an attempt by its scheduler

// Of the newest record below `restarts`.
std::optional<std::int64_t> step_in_record(const std::string& attempt_dir, int restarts) {
  for (int life = restarts - 1; life >= 0; --life) {
    const auto record = read_record(join_path(attempt_dir, record_file_name(life)));
    if (record.ok()) return record->saved_step;
  }
  return std::nullopt;
}

}  // namespace

std::int64_t step_left_by_earlier(const Attempt& attempt, int restarts) {
  if (const auto step = step_in_record(attempt.attempt_dir, restarts)) return *step;
  const std::string before = join_path(parent_path(attempt.attempt_dir), std::to_string(attempt.attempt - 1));
  if (attempt.attempt > 1)
    if (const auto step = step_in_record(before, restarts_looked_at)) return *step;
  return attempt.at_least_step > 0 ? attempt.at_least_step : -1;
}

}  // namespace longhaul
