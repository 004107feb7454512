// What the kernel says of a rank's process.
#pragma once

namespace longhaul {

enum class ProcessState {
  none,     // no page names it yet
  running,  // or sleeping: it would run if there were something to do
  stopped,  // by SIGSTOP or its like: it does nothing until somebody lets it go on
  traced,   // held by a debugger, that is by a person who looks
  blocked,  // in the kernel, uninterruptible: a disk or a file system that does not answer
  ended,    // gone, or a zombie
};
const char* to_string(ProcessState state);
// Neither runs nor will by itself.
constexpr bool is_held(ProcessState state) {
  return state == ProcessState::stopped || state == ProcessState::traced;
}

}  // namespace longhaul
