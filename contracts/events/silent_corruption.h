// What ranks say of bits that changed with nobody noticing: in the `faulted` event of the rank that is to blame, and in
// its log. The engine writes it, the lead reads it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/value/value.h"

namespace longhaul {

// Begins the sentence in the log of the rank to blame, and only there.
inline constexpr const char* silent_corruption_prefix = "silent corruption: ";
// Its `class` in the event: the name of the fault class (resiliency/taxonomy/fault_class.h).
inline constexpr const char* silent_corruption_class = "silent_corruption";

struct SilentCorruption {
  int rank = -1;           // of the launch: to blame, or the sending end of a way
  int other = -1;          // the receiving end, where it cannot be distinguished from the link; -1: it is the rank
  std::int64_t step = -1;  // whose update was not made
  std::int64_t sound_step = -1;  // newest step after which the weights are known to be right; -1: not known
  // False: one of two results is wrong, and another run has to show which.
  bool decided = true;
  std::string what;

  // Nothing can have been wrong before the step that it was found in.
  bool weights_are_sound() const { return sound_step + 1 >= step; }
  bool is_of_one_rank() const { return decided && other < 0; }
};

// Fields of an event, beside others; nullopt where they say nothing of the kind.
void set_fields(Value& fields, const SilentCorruption& found);
std::optional<SilentCorruption> silent_corruption_of(const Value& fields);

}  // namespace longhaul
