// Opening, reading, writing, syncing, and what is done to names.
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstdarg>

#include "tests/support/call_faults/call_plan.h"
#include "tests/support/call_faults/next_function.h"

namespace longhaul::call_faults {
namespace {

// Whether the call ends with an error, which is set.
bool fails(Call call, const std::string& path) {
  const int error = pass(call, path);
  if (error != 0) errno = error;
  return error != 0;
}
bool fails_at(Call call, int folder, const char* path) {
  return current_plan() != nullptr && fails(call, absolute_from(folder, path));
}
bool fails_on(Call call, int descriptor) {
  if (current_plan() == nullptr) return false;
  const std::string path = path_of(descriptor);
  return !path.empty() && fails(call, path);  // pipes and sockets are no files
}
bool fails_between(Call call, int from_folder, const char* from, int to_folder, const char* to) {
  return fails_at(call, from_folder, from) || fails_at(call, to_folder, to);
}

mode_t mode_of(int flags, va_list more) {
  return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(more, mode_t) : 0;
}

}  // namespace

// LH_OPEN(open64): int open64(const char*, int, ...)
#define LH_OPEN(name)                                                           \
  int our_##name(const char* path, int flags, ...) LH_IN_PLACE_OF(name);        \
  int our_##name(const char* path, int flags, ...) {                            \
    va_list more;                                                               \
    va_start(more, flags);                                                      \
    const mode_t mode = mode_of(flags, more);                                   \
    va_end(more);                                                               \
    static auto* const next = next_function<int(const char*, int, ...)>(#name); \
    return fails_at(Call::open, AT_FDCWD, path) ? -1 : next(path, flags, mode); \
  }
#define LH_OPENAT(name)                                                               \
  int our_##name(int folder, const char* path, int flags, ...) LH_IN_PLACE_OF(name);  \
  int our_##name(int folder, const char* path, int flags, ...) {                      \
    va_list more;                                                                     \
    va_start(more, flags);                                                            \
    const mode_t mode = mode_of(flags, more);                                         \
    va_end(more);                                                                     \
    static auto* const next = next_function<int(int, const char*, int, ...)>(#name);  \
    return fails_at(Call::open, folder, path) ? -1 : next(folder, path, flags, mode); \
  }
extern "C" {
LH_OPEN(open)
LH_OPEN(open64)
LH_OPEN(__open_2)
LH_OPEN(__open64_2)
LH_OPENAT(openat)
LH_OPENAT(openat64)
LH_OPENAT(__openat_2)
LH_OPENAT(__openat64_2)
}

// LH_CALL(call, result, failed, name, (parameters), (arguments), whether it fails)
#define LH_CALL(result, failed, name, parameters, arguments, condition) \
  result our_##name parameters LH_IN_PLACE_OF(name);                    \
  result our_##name parameters {                                        \
    static auto* const next = next_function<result parameters>(#name);  \
    return (condition) ? failed : next arguments;                       \
  }

extern "C" {
using Vector = const struct iovec*;
using Path = const char*;

LH_CALL(int, -1, creat, (Path path, mode_t mode), (path, mode), fails_at(Call::open, AT_FDCWD, path))
LH_CALL(int, -1, creat64, (Path path, mode_t mode), (path, mode), fails_at(Call::open, AT_FDCWD, path))
LH_CALL(FILE*, nullptr, fopen, (Path path, Path how), (path, how), fails_at(Call::open, AT_FDCWD, path))
LH_CALL(FILE*, nullptr, fopen64, (Path path, Path how), (path, how), fails_at(Call::open, AT_FDCWD, path))
LH_CALL(DIR*, nullptr, opendir, (Path path), (path), fails_at(Call::open, AT_FDCWD, path))

LH_CALL(ssize_t, -1, read, (int fd, void* to, size_t n), (fd, to, n), fails_on(Call::read, fd))
LH_CALL(ssize_t, -1, __read_chk, (int fd, void* to, size_t n, size_t room), (fd, to, n, room), fails_on(Call::read, fd))
LH_CALL(ssize_t, -1, pread, (int fd, void* to, size_t n, off_t at), (fd, to, n, at), fails_on(Call::read, fd))
LH_CALL(ssize_t, -1, pread64, (int fd, void* to, size_t n, off_t at), (fd, to, n, at), fails_on(Call::read, fd))
LH_CALL(ssize_t, -1, readv, (int fd, Vector to, int n), (fd, to, n), fails_on(Call::read, fd))
LH_CALL(ssize_t, -1, preadv, (int fd, Vector to, int n, off_t at), (fd, to, n, at), fails_on(Call::read, fd))

LH_CALL(ssize_t, -1, write, (int fd, const void* from, size_t n), (fd, from, n), fails_on(Call::write, fd))
LH_CALL(ssize_t, -1, pwrite, (int fd, const void* from, size_t n, off_t at), (fd, from, n, at),
        fails_on(Call::write, fd))
LH_CALL(ssize_t, -1, pwrite64, (int fd, const void* from, size_t n, off_t at), (fd, from, n, at),
        fails_on(Call::write, fd))
LH_CALL(ssize_t, -1, writev, (int fd, Vector from, int n), (fd, from, n), fails_on(Call::write, fd))
LH_CALL(ssize_t, -1, pwritev, (int fd, Vector from, int n, off_t at), (fd, from, n, at), fails_on(Call::write, fd))
LH_CALL(int, -1, ftruncate, (int fd, off_t n), (fd, n), fails_on(Call::write, fd))
LH_CALL(int, -1, ftruncate64, (int fd, off_t n), (fd, n), fails_on(Call::write, fd))
LH_CALL(int, -1, fflush, (FILE * file), (file), file != nullptr && fails_on(Call::write, ::fileno(file)))
LH_CALL(int, -1, fclose, (FILE * file), (file), fails_on(Call::write, ::fileno(file)) && (next(file), true))
LH_CALL(int, -1, futimens, (int fd, const timespec* times), (fd, times), fails_on(Call::write, fd))
LH_CALL(int, -1, utimensat, (int folder, Path path, const timespec* times, int flags), (folder, path, times, flags),
        fails_at(Call::write, folder, path))
// This one answers with the error itself.
LH_CALL(int, errno, posix_fallocate, (int fd, off_t at, off_t n), (fd, at, n), fails_on(Call::write, fd))
LH_CALL(int, errno, posix_fallocate64, (int fd, off_t at, off_t n), (fd, at, n), fails_on(Call::write, fd))

LH_CALL(int, -1, fsync, (int fd), (fd), fails_on(Call::fsync, fd))
LH_CALL(int, -1, fdatasync, (int fd), (fd), fails_on(Call::fsync, fd))
LH_CALL(int, -1, syncfs, (int fd), (fd), fails_on(Call::fsync, fd))
LH_CALL(int, -1, sync_file_range, (int fd, off64_t at, off64_t n, unsigned flags), (fd, at, n, flags),
        fails_on(Call::fsync, fd))

LH_CALL(int, -1, rename, (Path from, Path to), (from, to), fails_between(Call::rename, AT_FDCWD, from, AT_FDCWD, to))
LH_CALL(int, -1, renameat, (int old_folder, Path from, int new_folder, Path to), (old_folder, from, new_folder, to),
        fails_between(Call::rename, old_folder, from, new_folder, to))
LH_CALL(int, -1, renameat2, (int old_folder, Path from, int new_folder, Path to, unsigned flags),
        (old_folder, from, new_folder, to, flags), fails_between(Call::rename, old_folder, from, new_folder, to))
LH_CALL(int, -1, link, (Path from, Path to), (from, to), fails_between(Call::link, AT_FDCWD, from, AT_FDCWD, to))
LH_CALL(int, -1, linkat, (int old_folder, Path from, int new_folder, Path to, int flags),
        (old_folder, from, new_folder, to, flags), fails_between(Call::link, old_folder, from, new_folder, to))

LH_CALL(int, -1, unlink, (Path path), (path), fails_at(Call::unlink, AT_FDCWD, path))
LH_CALL(int, -1, unlinkat, (int folder, Path path, int flags), (folder, path, flags),
        fails_at(Call::unlink, folder, path))
LH_CALL(int, -1, remove, (Path path), (path), fails_at(Call::unlink, AT_FDCWD, path))
LH_CALL(int, -1, rmdir, (Path path), (path), fails_at(Call::unlink, AT_FDCWD, path))
LH_CALL(int, -1, mkdir, (Path path, mode_t mode), (path, mode), fails_at(Call::mkdir, AT_FDCWD, path))
LH_CALL(int, -1, mkdirat, (int folder, Path path, mode_t mode), (folder, path, mode),
        fails_at(Call::mkdir, folder, path))

LH_CALL(int, -1, stat, (Path path, struct stat* to), (path, to), fails_at(Call::stat, AT_FDCWD, path))
LH_CALL(int, -1, stat64, (Path path, struct stat64* to), (path, to), fails_at(Call::stat, AT_FDCWD, path))
LH_CALL(int, -1, lstat, (Path path, struct stat* to), (path, to), fails_at(Call::stat, AT_FDCWD, path))
LH_CALL(int, -1, lstat64, (Path path, struct stat64* to), (path, to), fails_at(Call::stat, AT_FDCWD, path))
LH_CALL(int, -1, fstatat, (int folder, Path path, struct stat* to, int flags), (folder, path, to, flags),
        fails_at(Call::stat, folder, path))
LH_CALL(int, -1, fstatat64, (int folder, Path path, struct stat64* to, int flags), (folder, path, to, flags),
        fails_at(Call::stat, folder, path))
LH_CALL(int, -1, statx, (int folder, Path path, int flags, unsigned mask, struct statx* to),
        (folder, path, flags, mask, to), fails_at(Call::stat, folder, path))
LH_CALL(int, -1, access, (Path path, int how), (path, how), fails_at(Call::stat, AT_FDCWD, path))
LH_CALL(int, -1, faccessat, (int folder, Path path, int how, int flags), (folder, path, how, flags),
        fails_at(Call::stat, folder, path))
}

}  // namespace longhaul::call_faults
