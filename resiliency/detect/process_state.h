// What the kernel says of a rank's process.
#pragma once

namespace longhaul {

enum class ProcessState {
  none,     // no page names it yet
  running,  // or sleeping: it would run if there were something to do
  stopped,  // SIGSTOP, or under a debugger
  blocked,  // in the kernel, uninterruptible: a disk or a file system that does not answer
  ended,    // gone, or a zombie
};
const char* to_string(ProcessState state);

}  // namespace longhaul
