// Signals to processes whose number was read from a file. A heartbeat page says which process its rank is; whoever
// could write the page could name any process of this user. So a process is one of the job's if it was started below
// this process, or carries a mark of the job that only whoever started it can have given it.
#pragma once

#include <cstdint>
#include <string>

#include "base/error/result.h"
#include "base/files/files.h"
#include "base/process/process.h"

namespace longhaul {

struct JobMarks {
  std::string attempt_key;  // LONGHAUL_ATTEMPT_KEY in its environment; "": not asked
  std::string beat_folder;  // of its page, as LONGHAUL_BEAT or the wrapper's --beat-dir name it; "": not asked
};

// Held so that no other process that gets the number later is meant (pidfd_open(2), Linux 5.3; where the kernel has
// none, its start time is compared before each signal).
class OwnProcess {
 public:
  OwnProcess() = default;  // none
  // not_found: there is no such process (any more); invalid_input: it is none of the job's, or this one. Reads its
  // environment, which lies in its own memory: ask while it is at work, not when it hangs.
  static Result<OwnProcess> of(std::int64_t pid, const JobMarks& marks);
  pid_t pid() const { return id_.pid; }  // -1: none
  // That it has ended meanwhile is fine. not_found: none.
  Status signal(int number) const;

 private:
  ProcessId id_;
  FileDescriptor fd_;
};

}  // namespace longhaul
