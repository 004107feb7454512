// What a lead notices of a training whose ranks all work: slow ones, and losses that make no sense; and what the
// stage's settings ask for then. Pure: ranks, events and the time come from outside. Nothing here is a fault until a
// setting says so (`resiliency.on_straggler`, `on_nan`); then demand() is what the guard is to be given.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "contracts/events/event.h"
#include "contracts/events/warning_event.h"
#include "contracts/records/launch.h"
#include "contracts/settings/job/resiliency.h"
#include "resiliency/detect/loss/loss_watch.h"
#include "resiliency/detect/straggler/straggler_watch.h"
#include "resiliency/taxonomy/restart_tier.h"
#include "worker/lead/monitor/launch_guard.h"

namespace longhaul {

// Which ranks do the same work: those of one stage of the pipeline. `others`: of the launch, the last ones, which are
// no part of the layout (rollout.ranks) and have no peers: they are left out.
std::vector<int> peers_of(const Launch& launch, int others = 0);

class TrainingWatch {
 public:
  explicit TrainingWatch(const ResiliencySettings& settings) : settings_(settings) {}
  // `peers`: by rank, as of StragglerDetector.
  void new_launch(int launch, std::vector<int> peers);
  // `spares`: hosts that could take a slow one's place now. Each warning once.
  std::vector<WarningEvent> look(const std::vector<RankObservation>& ranks, int spares);
  // The events that were written since the last call, oldest first: `metric` with a loss, `checkpoint`.
  std::vector<WarningEvent> take(const std::vector<Event>& events);

  // A slow host is to be left, and nothing was saved yet since: true once, then a checkpoint is to be ordered.
  bool wants_checkpoint();
  // What is to be done by the settings, as a finding; until the next launch.
  const std::optional<GuardFinding>& demand() const { return demand_; }

 private:
  void wish_to_leave(const Straggler& slow, int spares);
  void take_loss(const Event& event, std::vector<WarningEvent>& warnings);
  void saved(std::int64_t step);
  WarningEvent warning(const char* kind, const char* fault_class) const;

  struct Wish {
    int rank = -1;
    std::int64_t step = 0;  // at which it was found: a checkpoint of it or later is good
    bool ordered = false;
  };
  ResiliencySettings settings_;
  int launch_ = 0;
  StragglerWatch stragglers_;
  LossWatch losses_;
  bool not_finite_ = false;  // the newest loss is none
  std::int64_t high_since_ = -1;
  std::optional<Wish> wish_;
  std::optional<GuardFinding> demand_;
};

}  // namespace longhaul
