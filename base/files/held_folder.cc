#include "base/files/held_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>

#include "base/digest/hash.h"
#include "base/files/owned_files.h"
#include "base/files/owned_folder.h"
#include "base/system/clock.h"
#include "base/text/text.h"

namespace longhaul {
namespace {

constexpr const char* lock_name = "in-use";
constexpr std::int64_t removal_ms = 1'000, again_ms = 5;

bool is_still(const FileDescriptor& lock, const std::string& path) {
  struct stat opened{}, named{};
  return ::fstat(lock.get(), &opened) == 0 && ::lstat(path.c_str(), &named) == 0 && opened.st_dev == named.st_dev &&
         opened.st_ino == named.st_ino;
}

bool locks_are_unknown(int error_number) {
  return error_number == ENOLCK || error_number == ENOSYS || error_number == EOPNOTSUPP || error_number == EINVAL;
}

// Held by us alone, for as long as it is open; none: somebody uses it, or it cannot be known.
Result<FileDescriptor> lock_alone(const std::string& path) {
  LH_CHECK(check_private_folder(path));
  LH_TRY(FileDescriptor lock, open_owned_file(join_path(path, lock_name), private_to_us()));
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) == 0) return lock;
  if (errno == EWOULDBLOCK) return FileDescriptor();
  return errno_error(ErrorCode::unsupported, "cannot lock " + path, errno);
}

}  // namespace

Result<HeldFolder> HeldFolder::make(const std::string& path, Until until) {
  SystemClock clock;
  const std::string lock_path = join_path(path, lock_name);
  for (const Deadline deadline(clock, removal_ms); !deadline.passed(); clock.sleep_ms(again_ms)) {
    LH_CHECK(make_private_folder(path));
    auto lock = open_or_create_owned_file(lock_path, private_to_us(), 0600);
    if (!lock.ok() && lock.error().code == ErrorCode::not_found) continue;  // removed meanwhile
    if (!lock.ok()) return lock.error();
    const bool held = ::flock(lock->get(), LOCK_SH | LOCK_NB) == 0;
    if (!held && errno != EWOULDBLOCK && !locks_are_unknown(errno))
      return errno_error(ErrorCode::io, "cannot lock " + lock_path, errno);
    if ((!held && errno == EWOULDBLOCK) || !is_still(*lock, lock_path)) continue;
    if (until == Until::children_end && ::fcntl(lock->get(), F_SETFD, 0) != 0)
      return errno_error(ErrorCode::io, "cannot hand on " + lock_path, errno);
    return HeldFolder(std::move(*lock));
  }
  return make_error(ErrorCode::unavailable, path + " is being removed by another process for longer than a second");
}

FolderUse use_of_folder(const std::string& path) {
  const auto lock = lock_alone(path);
  if (!lock.ok()) return FolderUse::unknown;
  return lock->valid() ? FolderUse::left : FolderUse::used;
}

Result<bool> remove_left_folder(const std::string& path) {
  const auto lock = lock_alone(path);
  if (!lock.ok() || !lock->valid()) return false;
  LH_TRY(const std::string random, random_hex(16));
  const std::string aside = path + "-" + random;
  if (::rename(path.c_str(), aside.c_str()) != 0) return errno_error(ErrorCode::io, "cannot rename " + path, errno);
  LH_CHECK(remove_tree(aside));
  return true;
}

}  // namespace longhaul
