// Whether a launch gets anywhere, or does steps again and again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace longhaul {

struct ProgressOptions {
  int roll_backs_max = 5;  // within a launch, without a step beyond the highest so far
};

class ProgressWatch {
 public:
  explicit ProgressWatch(const ProgressOptions& options = {}) : options_(options) {}
  // The step that ranks are at; call it as often as you like. The reason, once.
  std::optional<std::string> at_step(std::int64_t step);

 private:
  ProgressOptions options_;
  std::int64_t highest_ = -1, last_ = -1;
  int roll_backs_ = 0;
};

}  // namespace longhaul
