// In-process restart: the processes of all ranks are alive, one of them had a fault that may not come again (a failed
// collective, a disk that did not answer). Instead of ending, the rank says so on its heartbeat page and waits for an
// order; the order reaches ranks that stand in collectives, too (CommOptions::newest_epoch). All then leave what they
// did, meet in communicators of a new epoch, go back to the newest state that every one of them holds, and go on.
//
// What is decided is pure and stands here; TrainingRestart carries it out. docs/resiliency.md describes the whole of
// it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/error/result.h"
#include "base/system/clock.h"
#include "contracts/events/silent_corruption.h"
#include "resiliency/beat/heartbeat_page.h"

namespace longhaul {

class Llama;

// What a rank does around the trainer and the loop, which live on. Belongs to the training's thread.
struct InProcessRestart {
  std::int64_t epoch = 1;  // of the communicators in use
  // The trainer has let go of everything: models, and whatever else holds communicators, are destroyed.
  std::function<void()> leave;
  // The mesh refers to communicators of that epoch from now on, and models are made anew as Trainer::join wants them.
  // Has a deadline; after an error the process has to be started anew.
  std::function<Result<std::vector<Llama*>>(std::int64_t epoch)> join;
  // This rank has a fault of its own and waits for an order: for its log. `corruption`: what of that kind it is, if it
  // is. May be empty.
  std::function<void(const Error& fault, const std::optional<SilentCorruption>& corruption)> report;
};

// May the same work succeed when it is done again? Not where input, settings or what lies on disk is wrong.
bool may_pass(const Error& fault);

// A fault as one rank has it.
struct FaultHere {
  Error error;
  bool passes = true;  // the same work may succeed when it is done again
  bool is_own = true;  // false: another rank reports it, and this one waits with it
};

// The epoch that the rank is ordered to; waits for an order as long as the page says. Without one the error is the
// fault, as it is at once where nobody gives orders, the fault will not pass, or `stop` is raised.
Result<std::int64_t> await_restart_order(HeartbeatPage& beat, std::int64_t epoch, const FaultHere& fault,
                                         const Clock& clock, const std::atomic<bool>& stop,
                                         const std::function<void(const Error&)>& report);

// The states that a rank can go on from, by their version: its copy in memory, and what it works with, unless an update
// was under way.
struct HeldStates {
  std::optional<std::int64_t> copy, own;
  bool has(std::int64_t version) const { return copy == version || own == version; }
};
// The newest that all hold; nullopt: there is none.
std::optional<std::int64_t> newest_held_by_all(std::span<const HeldStates> ranks);

// How often, in steps, a copy may be taken so that it costs at most `share` of the time: at least `every`.
std::int64_t copy_interval(std::int64_t every, double copy_seconds, double step_seconds, double share);

}  // namespace longhaul
