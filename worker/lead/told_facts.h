// What the events of an attempt have told so far of which a decision about a fault is made. Every event is taken once,
// so that a training of weeks with hundreds of faults reads its events no more often than one without. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "contracts/event.h"
#include "contracts/silent_corruption.h"

namespace longhaul {

class ToldFacts {
 public:
  // In the order in which they were written.
  void take(const std::vector<Event>& events);

  // Of the newest checkpoint or copy on the nodes; -1: none.
  std::int64_t saved_step() const { return saved_step_; }
  // What the rank has said of its newest fault that it survived; "": nothing, or all that it said was decided upon.
  std::string fault_of(int rank) const;
  void faults_decided() { faults_.clear(); }
  // Why the ranks of the newest launch have stopped by themselves: as they were told to, or because after another step
  // there would be no time for a save; "": they have not.
  const std::string& stopped() const { return stopped_; }
  // As told_corruption() finds it.
  std::optional<SilentCorruption> corruption(int launch, std::int64_t after_ms) const;

 private:
  std::int64_t saved_step_ = -1;
  std::map<int, std::string> faults_;
  std::vector<Event> corruption_;  // the newest, if there is one
  std::string stopped_;
};

}  // namespace longhaul
