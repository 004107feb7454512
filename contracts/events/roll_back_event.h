// The event by which the first rank of a training says that it went back to its last checkpoint by itself
// (on_spike.action = "rollback", engine/train/step/spike_guard.h), written when all ranks are back and about to take
// step to_step + 1. Beside these fields it has those of `spike`: loss, grad_norm, problem; and `path`, of the
// checkpoint. The lead makes a `fault` of it (contracts/events/fault_event.h) with the further field `to_step`, by
// which such a fault is distinguished from one whose step was left out alone.
#pragma once

#include <cstdint>

#include "base/value/value.h"

namespace longhaul {

inline constexpr const char* rolled_back_event_kind = "rolled_back";
inline constexpr const char* roll_back_to_step_key = "to_step";

struct RollBackEvent {
  std::int64_t step = -1;             // whose loss was bad; its update was not made
  std::int64_t to_step = -1;          // of the checkpoint
  std::int64_t lost_steps = 0;        // completed since that one; they are done again, with other samples
  std::int64_t samples_left_out = 0;  // by this roll-back
  double total_s = 0;                 // from the judgement until all ranks were back
  double load_s = 0;                  // of it, loading; before that a save under way came to its end
};
inline void set_fields(Value& fields, const RollBackEvent& event) {
  fields.set("step", event.step);
  fields.set(roll_back_to_step_key, event.to_step);
  fields.set("lost_steps", event.lost_steps);
  fields.set("samples_left_out", event.samples_left_out);
  fields.set("total_s", event.total_s);
  fields.set("load_s", event.load_s);
}
inline RollBackEvent roll_back_event_from_value(const Value& fields) {
  RollBackEvent event;
  event.step = fields.get_integer("step", -1);
  event.to_step = fields.get_integer(roll_back_to_step_key, -1);
  event.lost_steps = fields.get_integer("lost_steps");
  event.samples_left_out = fields.get_integer("samples_left_out");
  event.total_s = fields.get_number("total_s");
  event.load_s = fields.get_number("load_s");
  return event;
}
// Of the fields of a `fault`.
inline bool is_roll_back(const Value& fields) {
  return fields.find(roll_back_to_step_key) != nullptr;
}

}  // namespace longhaul
