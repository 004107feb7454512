#include "worker/lead/record_reserve.h"

#include <string>

#include "base/files/files.h"

namespace longhaul {
namespace {

// The record, a few facts of the controller and the files of the next attempt: each takes blocks of its own.
constexpr std::size_t reserve_bytes = 64 << 10;

}  // namespace

Status keep_reserve(const Attempt& attempt) {
  if (file_exists(attempt.reserve_path())) return {};
  return write_file_atomic(attempt.reserve_path(), std::string(reserve_bytes, '.'));
}

void give_up_reserve(const Attempt& attempt) {
  (void)remove_tree(attempt.reserve_path()).ok();
}

bool is_record_of(const Attempt& attempt, const JobRecord& record) {
  const auto there = read_record(attempt.record_path(record.restarts));
  return there.ok() && there->key == record.key && there->restarts == record.restarts;
}

}  // namespace longhaul
