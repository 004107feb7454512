// How much a template may still do. It bounds the steps, the nesting of blocks and calls, and the size of values and
// output of one rendering, so that a template of unknown origin always ends and never takes all memory.
#pragma once

#include <cstdint>

#include "engine/data/jinja/jinja_template.h"

namespace longhaul {

// One rendering, one thread.
class JinjaBudget {
 public:
  // A block, call or loop that is being run: counted in `depth` while it lives.
  class Level {
   public:
    explicit Level(int& depth) : depth_(depth) { ++depth_; }
    ~Level() { --depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    int& depth_;
  };

  explicit JinjaBudget(const JinjaLimits& limits) : limits_(limits) {}

  // An error when the steps of the limits are used up.
  Status spend(std::uint64_t steps);
  // Handling so many bytes costs a step per 256.
  Status spend_bytes(std::uint64_t bytes) { return spend(bytes >> 8); }
  // A value that an expression has made: an error where it is nested too deep or too large; else its bytes are spent.
  Status check(const JinjaValue& value);
  // An error where the output has more bytes than the limits allow.
  Status check_output(std::uint64_t bytes) const;

  // One level of nodes deeper, of expressions and blocks alike, for as long as the Level lives; is_too_deep() then says
  // whether the stack of the process would be in danger.
  Level enter_node() { return Level(depth_); }
  bool is_too_deep() const;

 private:
  const JinjaLimits limits_;
  std::uint64_t steps_ = 0;
  int depth_ = 0;
};

}  // namespace longhaul
