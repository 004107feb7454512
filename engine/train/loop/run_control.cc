#include "engine/train/loop/run_control.h"

#include <algorithm>

#include "base/text/text.h"

namespace longhaul {

RankNotice RunControl::notice() {
  RankNotice notice;
  notice.stop = context_.stop.load(std::memory_order_relaxed);
  if (context_.options.stop_signal) notice.signal = context_.options.stop_signal->load(std::memory_order_relaxed);
  if (const HeartbeatPage* beat = context_.beat) {
    notice.shorten = beat->stop_after_step() >= 0 && context_.step() >= beat->stop_after_step();
    const std::int64_t orders = context_.place().may_end() ? beat->checkpoint_orders() : checkpoints_seen_;
    notice.save = orders != checkpoints_seen_;
    checkpoints_seen_ = orders;
    notice.interval = beat->checkpoint_interval();
    notice.learning_rate = beat->learning_rate();
    const std::int64_t end_ns = beat->end_by_ns();
    if (end_ns > 0) notice.left_s = std::max(1e-3, -context_.seconds_since(end_ns));
  }
  saves_.add_to(notice);
  notice.copy_every = copies_.interval();
  notice.step_s = context_.step_seconds;
  return notice;
}

Result<StepRequests> RunControl::ask() {
  if (context_.beat) orders_ = context_.beat->orders();
  const std::array<double, RankNotice::fields> mine = notice().packed();
  std::vector<double> all(static_cast<std::size_t>(context_.group().size()) * RankNotice::fields);
  LH_CHECK(context_.group().all_gather(std::span<const double>(mine), all));
  std::vector<RankNotice> ranks;
  for (std::size_t at = 0; at < all.size(); at += RankNotice::fields)
    ranks.push_back(RankNotice::from_packed(std::span<const double>(all).subspan(at, RankNotice::fields)));
  const StepRequests asked = requests_of(ranks, saves_.situation());
  if (asked.learning_rate > 0 && asked.learning_rate != state_.ordered_learning_rate()) {
    state_.set_learning_rate(asked.learning_rate);
    context_.events.message("info", format("the learning rate's peak is {:g} from step {} on, as ordered",
                                           asked.learning_rate, context_.step() + 1));
  }
  return asked;
}

void RunControl::obeyed() {
  if (context_.beat && context_.place().may_end()) context_.beat->obeyed(orders_);
  checkpoints_obeyed_ = checkpoints_seen_;
}

}  // namespace longhaul
