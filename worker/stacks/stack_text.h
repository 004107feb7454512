// What one process and all it has started are doing, as text for people: each thread's name, state, place in the kernel
// and call stack. Made in a process of its own (`longhaul-worker stacks`), since looking into one that is stuck can get
// stuck, and a library that reads its memory can crash.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "base/error/result.h"
#include "base/system/clock.h"

namespace longhaul {

struct StackRequest {
  std::string title;  // "rank 3 on n2"
  pid_t pid = 0;
  std::int64_t deadline_ms = 5'000;  // then what there is by now
};
// Always a text: what could not be found out stands in it, with the reason.
std::string stack_text(const StackRequest& question, const Clock& clock);
// The same from what never blocks, with `problem` as the reason why there is no more.
std::string short_stack_text(const StackRequest& question, const std::string& problem, const Clock& clock);

}  // namespace longhaul
