// The checksum of what the backward of one micro-batch has written, part by part, in any order: of equal gradients in
// equal layouts it is equal.
#pragma once

#include <optional>

#include "base/process/fault_point.h"
#include "engine/comm/contribution_check.h"
#include "engine/model/store/gradient_target.h"

namespace longhaul {

class GradientDigest {
 public:
  // `flip`: a bit that is changed in the first part, as the fault point engine_gradient does.
  void begin(std::optional<std::uint64_t> flip) { value_ = 0, flip_ = flip; }
  std::uint64_t value() const { return value_; }

  // The same target, whose parts are looked at before anybody else hears that they are ready. Borrowed until its
  // backward is done.
  GradientTarget watch(GradientTarget target) {
    GradientTarget watched = target;
    watched.ready = [this, inner = std::move(target)](std::int64_t begin, std::int64_t end) {
      const std::span<float> part{inner.at(begin), static_cast<std::size_t>(end - begin)};
      if (flip_ && !part.empty()) flip_bit(std::as_writable_bytes(part), *flip_);
      flip_.reset();
      // Sums do not depend on the order of the parts; the place of each is in its term.
      value_ += contribution_checksum(std::as_bytes(part)) * (2 * static_cast<std::uint64_t>(begin) + 1);
      inner.say_ready(begin, end);
    };
    return watched;
  }

 private:
  std::uint64_t value_ = 0;
  std::optional<std::uint64_t> flip_;
};

}  // namespace longhaul
