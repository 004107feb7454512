#include "orchestrator/index/run_stamp.h"

#include <sys/stat.h>

namespace longhaul {
namespace {

constexpr std::int64_t settles_ms = 10'000;

std::int64_t nanoseconds(const timespec& time) {
  return static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

}  // namespace

FileStamp stamp_of(const std::string& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) return {};
  return {static_cast<std::int64_t>(info.st_ino), static_cast<std::int64_t>(info.st_size), nanoseconds(info.st_mtim),
          nanoseconds(info.st_ctim)};
}

bool is_settled(const FileStamp& stamp, std::int64_t now_ms) {
  return stamp.there() && stamp.changed_ns / 1'000'000 < now_ms - settles_ms;
}

}  // namespace longhaul
