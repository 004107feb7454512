#include "base/error/whereabouts.h"

#include <utility>

namespace longhaul {
namespace {
// A chain of objects on this thread's own stack; no thread sees another's.
thread_local Whereabouts* innermost = nullptr;
}  // namespace

Whereabouts::Whereabouts(std::function<std::string()> say) : say_(std::move(say)), around_(innermost) {
  innermost = this;
}

Whereabouts::~Whereabouts() {
  innermost = around_;
}

std::string Whereabouts::text() {
  // One that fails while it speaks ends here, too, and must not be asked again.
  Whereabouts* const first = std::exchange(innermost, nullptr);
  std::string said;
  for (const Whereabouts* one = first; one; one = one->around_) said = one->say_() + (said.empty() ? "" : "; " + said);
  innermost = first;
  return said;
}

}  // namespace longhaul
