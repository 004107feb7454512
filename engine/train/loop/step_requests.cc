#include "engine/train/loop/step_requests.h"

#include <algorithm>

namespace longhaul {
namespace {

void add_stop(StopCause& cause, int rank, int signal) {
  cause.signal = cause.asked.empty() || cause.signal == signal ? signal : 0;
  cause.asked.push_back(rank);
}

bool all_have_done(std::span<const RankNotice> ranks, bool RankNotice::* part) {
  return std::ranges::none_of(ranks, [part](const RankNotice& rank) { return rank.*part; });
}

}  // namespace

std::array<double, RankNotice::fields> RankNotice::packed() const {
  const auto number = [](auto value) { return static_cast<double>(value); };
  return {number(stop),    number(signal),   number(shorten), number(save),       number(writing), number(copying),
          number(reading), number(interval), learning_rate,   number(copy_every), left_s,          save_s,
          step_s};
}

RankNotice RankNotice::from_packed(std::span<const double> packed) {
  RankNotice notice;
  notice.stop = packed[0] > 0, notice.signal = static_cast<int>(packed[1]);
  notice.shorten = packed[2] > 0, notice.save = packed[3] > 0;
  notice.writing = packed[4] != 0, notice.copying = packed[5] != 0, notice.reading = packed[6] != 0;
  notice.interval = static_cast<std::int64_t>(packed[7]), notice.learning_rate = packed[8];
  notice.copy_every = static_cast<std::int64_t>(packed[9]);
  notice.left_s = packed[10], notice.save_s = packed[11], notice.step_s = packed[12];
  return notice;
}

StepRequests requests_of(std::span<const RankNotice> ranks, const SaveSituation& now) {
  StepRequests all;
  all.advance_save = now.saving && all_have_done(ranks, &RankNotice::writing);
  all.advance_copy = now.copying && all_have_done(ranks, &RankNotice::copying);
  all.advance_read = now.reading && all_have_done(ranks, &RankNotice::reading);
  all.cause.ranks = static_cast<int>(ranks.size());
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const RankNotice& rank = ranks[i];
    if (rank.stop) add_stop(all.cause, static_cast<int>(i), rank.signal);
    all.shorten |= rank.shorten, all.ordered |= rank.save;
    all.save_s = std::max(all.save_s, rank.save_s);
    if (rank.left_s > 0 && (!all.time_is_known || rank.left_s < all.left_s))
      all.time_is_known = true, all.left_s = rank.left_s;
    all.copy_every = std::max(all.copy_every, rank.copy_every);
  }
  // Or by an own timer: after one step more it would be too late.
  const RankNotice& first = ranks.front();
  const double needed_s = save_margin * (all.save_s * (now.saving ? 2 : 1) + first.step_s) + end_margin_s;
  all.stop = !all.cause.asked.empty() || (all.time_is_known && all.left_s < needed_s);
  const std::int64_t every = first.interval > 0 ? first.interval : now.checkpoint_every_steps;
  all.save = all.ordered || now.place.is_due(every);
  if (!now.place.may_end()) all.stop = all.shorten = all.save = false;
  all.learning_rate = first.learning_rate;
  return all;
}

}  // namespace longhaul
