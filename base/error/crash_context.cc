#include "base/error/crash_context.h"

#include <utility>

namespace longhaul {
namespace {
// A chain of objects on this thread's own stack; no thread sees another's.
thread_local CrashContext* innermost = nullptr;
}  // namespace

CrashContext::CrashContext(std::function<std::string()> say) : say_(std::move(say)), around_(innermost) {
  innermost = this;
}

CrashContext::~CrashContext() {
  innermost = around_;
}

std::string CrashContext::text() {
  // One that fails while it speaks ends here, too, and must not be asked again.
  CrashContext* const first = std::exchange(innermost, nullptr);
  std::string said;
  for (const CrashContext* one = first; one; one = one->around_) said = one->say_() + (said.empty() ? "" : "; " + said);
  innermost = first;
  return said;
}

}  // namespace longhaul
