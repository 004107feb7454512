#include "resiliency/health/file_system_probe.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/files/files.h"
#include "base/text/text.h"

namespace longhaul {
namespace {

struct ProbeAnswer {
  int error = 0;
  std::uint64_t free_bytes = 0, total_bytes = 0, free_inodes = 0, total_inodes = 0;
};

double seconds_since(std::chrono::steady_clock::time_point began) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

// Waits until `fd` can be read or the time is over; a signal does not end the wait.
bool readable_within(int fd, std::chrono::steady_clock::time_point began, std::int64_t deadline_ms) {
  for (;;) {
    const std::int64_t left_ms = deadline_ms - static_cast<std::int64_t>(seconds_since(began) * 1000);
    if (left_ms < 0) return false;
    pollfd waited{fd, POLLIN, 0};
    const int ready = ::poll(&waited, 1, static_cast<int>(left_ms));
    if (ready > 0) return true;
    if (ready == 0 || errno != EINTR) return false;
  }
}

}  // namespace

void ask_file_system(const char* path, FileSystemReading& reading) {
  // Opening goes to the server, also where attributes are cached.
  const int fd = ::open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  struct statvfs room{};
  if (fd < 0 || ::fstatvfs(fd, &room) != 0) {
    reading.error = errno;
    return;
  }
  reading.free_bytes = std::uint64_t{room.f_frsize} * room.f_bavail;
  // As df counts its percentage: blocks that only root may fill are no part of it.
  reading.total_bytes = std::uint64_t{room.f_frsize} * (room.f_blocks - room.f_bfree + room.f_bavail);
  reading.free_inodes = room.f_favail;
  reading.total_inodes = room.f_files;
}

FileSystemProbe::~FileSystemProbe() {
  if (child_ > 0) ::kill(child_, SIGKILL);
  (void)reap();
}

FileSystemProbe::FileSystemProbe(FileSystemProbe&& other) noexcept
    : path_(std::move(other.path_)), ask_(other.ask_), child_(std::exchange(other.child_, -1)) {}

// True when no child of ours is left.
bool FileSystemProbe::reap() {
  if (child_ > 0 && ::waitpid(child_, nullptr, WNOHANG) != 0) child_ = -1;  // ended, or not ours any more
  return child_ <= 0;
}

FileSystemReading FileSystemProbe::look(std::int64_t deadline_ms) {
  FileSystemReading reading;
  reading.path = path_;
  if (!reap()) return reading;
  const auto began = std::chrono::steady_clock::now();
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    reading.answered = true, reading.error = errno;
    return reading;
  }
  FileDescriptor in(ends[0]), out(ends[1]);
  child_ = ::fork();
  if (child_ < 0) {
    reading.answered = true, reading.error = errno;
    return reading;
  }
  if (child_ == 0) {
    FileSystemReading asked;
    ask_(path_.c_str(), asked);
    const ProbeAnswer answer{asked.error, asked.free_bytes, asked.total_bytes, asked.free_inodes, asked.total_inodes};
    const ssize_t written = ::write(ends[1], &answer, sizeof answer);
    ::_exit(written == static_cast<ssize_t>(sizeof answer) ? 0 : 1);
  }
  out.reset();
  ProbeAnswer answer;
  if (readable_within(in.get(), began, deadline_ms) &&
      ::read(in.get(), &answer, sizeof answer) == static_cast<ssize_t>(sizeof answer)) {
    reading.answered = true;
    reading.error = answer.error;
    reading.free_bytes = answer.free_bytes, reading.total_bytes = answer.total_bytes;
    reading.free_inodes = answer.free_inodes, reading.total_inodes = answer.total_inodes;
    (void)::waitpid(child_, nullptr, 0);  // it has nothing left to wait for
    child_ = -1;
  } else {
    ::kill(child_, SIGKILL);  // ends it at once, or when its server answers again
    (void)reap();
  }
  reading.waited_s = seconds_since(began);
  return reading;
}

HealthFindings judge_file_system(const FileSystemReading& reading, const FileSystemLimits& limits) {
  const auto found = [&](FaultClass fault, const std::string& what) {
    return HealthFindings{health_finding("disk", fault, reading.path, what)};
  };
  if (!reading.answered) return found(FaultClass::file_system, "does not answer");
  if (reading.error != 0) return found(FaultClass::file_system, std::strerror(reading.error));
  const double free = static_cast<double>(reading.free_bytes), total = static_cast<double>(reading.total_bytes);
  if (reading.total_bytes > 0 && reading.free_bytes == 0) return found(FaultClass::disk_full, "no space is left");
  if (reading.total_bytes > 0 && (free < limits.free_min * total || reading.free_bytes < limits.free_bytes_min))
    return found(FaultClass::disk_low, format("{} of {} are free", human_bytes(free), human_bytes(total)));
  const double inodes = static_cast<double>(reading.total_inodes);
  if (reading.total_inodes > 0 && static_cast<double>(reading.free_inodes) < limits.free_inodes_min * inodes)
    return found(FaultClass::disk_low, format("{} of {} inodes are free", reading.free_inodes, reading.total_inodes));
  return {};
}

HealthFindings judge_shared_memory(const FileSystemReading& reading, std::uint64_t free_bytes_min) {
  if (!reading.answered || reading.error != 0) return judge_file_system(reading);
  if (reading.free_bytes >= free_bytes_min) return {};
  return {health_finding("disk", FaultClass::shm_full, reading.path,
                         human_bytes(static_cast<double>(reading.free_bytes)) + " are free")};
}

}  // namespace longhaul
