// Whether ranks follow an order to go on in-process. Those that have stood in a collective that does not end have
// nothing but this to say that the order has come to nothing: the ranks' own deadlines are those of a meeting, and none
// begins where a rank does not leave. Those that wait for the order at a fault that they survived follow it when they
// come to it, however long their step is; but what reaches them is passed on by the agent of their node. Where that was
// not heard of since a second after the order at the latest, and all others have left and wait for its ranks, it has
// not reached those. Once all have left they have as long to meet as others, however late they left. Pure.
//
// A rank that polls its wait leaves within milliseconds, and its lead hears of it with the next report: leave_ms is far
// more than both. Meeting in new communicators took 17 s at 16,384 GPUs (NCCL; the figure that the simulator has);
// meet_ms is the sum of both with a little to spare, and well below the minute after which ranks give up by themselves.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "worker/lead/monitor/launch_guard.h"

namespace longhaul {

class RestartOrder {
 public:
  static constexpr std::int64_t passed_on_ms = 1'000, leave_ms = 3'000, meet_ms = 25'000;

  // All ranks were ordered to that epoch because of this.
  void given(std::int64_t now_ms, std::int64_t epoch, const GuardFinding& why);
  // Another launch, or another fault: nobody is waited for any more.
  void over() { order_.reset(); }
  // What the order was for, as a fault that needs new processes, once: when a rank has not left in time, or not all
  // have come to the epoch. Of a fault that was survived the culprit stays who it was, and no node is accused.
  std::optional<GuardFinding> look(std::int64_t now_ms, const std::vector<RankObservation>& ranks);
  // The same beside what else was seen now: a rank that has ended on its way back belongs to the fault before it.
  // Another fault ends the order, but for a rank that has ended: srun may have ended it because of one that failed on
  // its way, of which its own agent has not reported yet; `failed` says so once the launch has been put down.
  std::optional<GuardFinding> fault_of(const std::optional<GuardFinding>& seen, std::int64_t now_ms,
                                       const std::vector<RankObservation>& ranks);
  // Of a launch that has ended or was put down: nothing where no rank has failed on its way. A lead that stood still
  // with its file system sees all of it at once, and the agents' reports one after the other.
  std::optional<GuardFinding> failed(const std::vector<RankObservation>& ranks);

 private:
  struct Given {
    std::int64_t at_ms = 0, epoch = 0;
    GuardFinding why;
    std::optional<std::int64_t> all_left_ms = {};  // since when every rank has left, or is there
  };
  std::optional<GuardFinding> not_followed(std::int64_t since_ms, const std::vector<RankObservation>& ranks);
  std::optional<GuardFinding> not_passed_on(std::int64_t since_ms, const std::vector<RankObservation>& ranks);
  std::optional<GuardFinding> not_met(std::int64_t now_ms, const std::vector<RankObservation>& ranks);
  GuardFinding come_to_nothing(std::string why);
  bool is_there(const RankObservation& rank) const { return rank.beat.epoch >= order_->epoch; }

  std::optional<Given> order_;
};

}  // namespace longhaul
