#include "worker/lead/recovery/later_attempt.h"

#include <algorithm>
#include <cstdlib>

#include "base/files/files.h"
#include "base/text/text.h"

namespace longhaul {
namespace {

constexpr std::int64_t later_attempt_look_ms = 30'000;

bool is_claimed(const std::string& attempt_dir) {
  const auto names = list_directory(attempt_dir);
  return names.ok() && std::any_of(names->begin(), names->end(), [](const std::string& name) {
           return starts_with(name, "claim") && ends_with(name, ".json");
         });
}

}  // namespace

int claimed_later_attempt(const Attempt& attempt) {
  const std::string attempts = parent_path(attempt.attempt_dir);
  const auto names = list_directory(attempts);
  if (!names.ok()) return 0;  // asked again
  for (const std::string& name : *names) {
    const int number = std::atoi(name.c_str());
    if (number > attempt.attempt && is_claimed(join_path(attempts, name))) return number;
  }
  return 0;
}

int LaterAttempt::look() {
  const std::int64_t now = clock_.monotonic_ns();
  if (next_look_ns_ > 0 && now < next_look_ns_) return 0;
  next_look_ns_ = now + later_attempt_look_ms * 1'000'000;
  return claimed_later_attempt(attempt_);
}

}  // namespace longhaul
