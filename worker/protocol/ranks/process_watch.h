// What the kernel of this host says of a process (proc(5), field 3 of stat).
#pragma once

#include <cstdint>

#include "base/files/files.h"
#include "resiliency/detect/hang/process_state.h"

namespace longhaul {

ProcessState process_state(std::int64_t pid);

// The same of one process again and again, for a fifth of the system calls: its stat stays open. Once the process is
// gone that file says so, even where another process has got its number since.
class ProcessWatch {
 public:
  ProcessState look(std::int64_t pid);  // another pid than before: that one from now on
  // Readable for poll(2) as soon as the process of the last look ends (pidfd_open(2), Linux 5.3). -1: the kernel does
  // not offer it, or the last look has found the process ended.
  int end_descriptor() const { return end_.get(); }
  bool alive() const { return alive_; }  // at the last look

 private:
  ProcessState now(std::int64_t pid);

  std::int64_t pid_ = 0;
  bool alive_ = false;
  FileDescriptor stat_, end_;
};

}  // namespace longhaul
