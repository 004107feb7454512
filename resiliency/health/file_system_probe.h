// Whether a folder's file system answers, and what room it has, with a deadline.
//
// A process that asks a dead NFS or Lustre server waits in the kernel and cannot be ended, not even by SIGKILL. So a
// child asks: when it does not answer in time it is left to itself, and the caller goes on. While a child is stuck no
// other is sent: a dead server costs one process per path, however long it is dead.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "resiliency/health/health_finding.h"

namespace longhaul {

struct FileSystemReading {
  std::string path;
  bool answered = false;
  int error = 0;  // errno of what went wrong; 0: all well
  double waited_s = 0;
  std::uint64_t free_bytes = 0, total_bytes = 0;    // that an unprivileged writer may use
  std::uint64_t free_inodes = 0, total_inodes = 0;  // total 0: the file system has no fixed number of them
};

// What the child does: system calls only, since its parent may have threads. Tests put one in that never returns.
using AskFileSystem = void (*)(const char* path, FileSystemReading& reading);
void ask_file_system(const char* path, FileSystemReading& reading);

class FileSystemProbe {
 public:
  explicit FileSystemProbe(std::string path, AskFileSystem ask = ask_file_system) : path_(std::move(path)), ask_(ask) {}
  ~FileSystemProbe();
  FileSystemProbe(FileSystemProbe&& other) noexcept;
  FileSystemProbe& operator=(FileSystemProbe&&) = delete;

  // Returns within about `deadline_ms`.
  FileSystemReading look(std::int64_t deadline_ms);
  bool stuck() const { return child_ > 0; }

 private:
  bool reap();

  std::string path_;
  AskFileSystem ask_;
  pid_t child_ = -1;  // one that did not answer and has not ended
};

// Our own figures: below them somebody should make room before it runs out.
struct FileSystemLimits {
  double free_min = 0.02;  // share of its bytes, and at least
  std::uint64_t free_bytes_min = 1ULL << 30;
  double free_inodes_min = 0.01;  // share of its inodes
};
HealthFindings judge_file_system(const FileSystemReading& reading, const FileSystemLimits& limits = {});
// /dev/shm: collectives and data loaders need room there, and die of a bus error without it.
HealthFindings judge_shared_memory(const FileSystemReading& reading, std::uint64_t free_bytes_min = 64ULL << 20);

}  // namespace longhaul
