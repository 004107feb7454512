// Each kind of event in words: docs/reference/events.md and `longhaul explain` are written from this table.
#pragma once

#include <span>

namespace longhaul {

struct EventText {
  const char* kind;
  const char* fields;   // beside the time and the kind; perhaps ""
  const char* by;       // who writes it
  const char* meaning;  // one sentence
};
// In the order of a training: its course, then what is noticed of it, then its faults. Each kind once.
std::span<const EventText> event_texts();

}  // namespace longhaul
