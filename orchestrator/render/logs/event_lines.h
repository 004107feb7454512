// Room orchestrator/render/logs
// What `longhaul logs` prints of a stage: which stage is shown, and its events as lines.
// event_lines.h makes the lines; shown_stage.h chooses the stage where none is named.
// It knows no terminal and follows no file: the command reads, and this room renders.
//
// The events of an attempt as lines for people, for `longhaul logs`: "11-28 02:42:41  step 120/3000  loss 3.21
// lr 3.0e-4  19.7 K tokens/s". Pure. Kinds of events that nobody has to read are left out, as are those that are not
// known; of metrics and progress so many that a fast training stays readable.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "contracts/events/event.h"

namespace longhaul {

class EventLines {
 public:
  // Of two usual metrics, or two lines of progress, that are nearer to each other than `apart_ms` by the times of the
  // events only the first is shown. `total` steps are planned, 0: the events will say it.
  explicit EventLines(std::int64_t apart_ms, double total = 0) : apart_ms_(apart_ms), total_(total) {}

  // One line each, with its newline; control characters of what the events say are made visible.
  std::string lines(const std::vector<Event>& events);
  // The newest metric or progress where it was left out; "" otherwise. Once nothing more will come.
  std::string rest();
  void set_apart(std::int64_t apart_ms) { apart_ms_ = apart_ms; }

 private:
  std::string line(const Event& event);
  // Of those that come all the time.
  std::string often(const Event& event, std::string text);

  std::int64_t apart_ms_;
  double total_;
  bool metrics_ = false;  // of a training: its progress says no more than they do
  std::int64_t shown_ms_ = -1;
  std::string left_out_;
};

}  // namespace longhaul
