// What the kernel says of a process and its threads (proc(5)), without stopping or asking them anything.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/error/result.h"

namespace longhaul {

struct ThreadFacts {
  pid_t tid = 0;
  std::string name;
  char state = '?';          // R S D T t Z X I
  std::string waits_in;      // of the kernel ("futex_wait_queue"); "" where it does not say
  std::string syscall;       // "futex(0x7f..., 0x80, ...)"; "" in user space, or where reading it is not allowed
  std::string kernel_stack;  // of a thread that is blocked in the kernel, where reading it is allowed
};
std::string state_text(char state);  // "D (in the kernel, uninterruptible)"

struct ProcessFacts {
  pid_t pid = 0;
  std::string program;    // its file
  std::string arguments;  // on one line, cut
  std::vector<ThreadFacts> threads;
  int threads_left_out = 0;
};

// not_found: it has ended, or is a zombie. Reading arguments can block where the process itself is blocked in the
// kernel: for a process that can be given up.
Result<ProcessFacts> process_facts(pid_t pid, int threads_max);
// Only what never blocks: names, states and where threads wait.
Result<ProcessFacts> process_facts_at_once(pid_t pid, int threads_max);

// The process and what it has started, parents first; at most `most`. A rank that is a shell script waits in the shell
// for the program that matters.
std::vector<pid_t> process_and_descendants(pid_t pid, std::size_t most);

}  // namespace longhaul
