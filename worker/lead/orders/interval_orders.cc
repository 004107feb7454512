#include "worker/lead/orders/interval_orders.h"

#include <utility>

#include "base/text/text.h"

namespace longhaul {
namespace {

constexpr std::int64_t interval_poll_ms = 5'000;

}  // namespace

void IntervalOrders::poll(std::int64_t newest_step, FirstRankOrders& first_rank, const OrderBook& by_people) {
  const std::int64_t now = clock_.monotonic_ns();
  next_ns_ = now + interval_poll_ms * 1'000'000;
  const std::vector<Event> news = std::exchange(news_, {});
  if (const auto steps = watch_.look(now / 1'000'000, newest_step, news)) choose(*steps);
  // Again and again: an agent, or a new launch, may not know of it yet.
  if (!order_.id.empty() && first_rank.ready() && !by_people.ordered("checkpoint_interval")) first_rank.take(order_);
}

void IntervalOrders::choose(std::int64_t steps) {
  // A name of its own each time: an interval that comes back is another order.
  order_ = {format("interval-{}", clock_.wall_ms()), "checkpoint_interval", static_cast<double>(steps)};
  const IntervalChooser& chosen = watch_.chooser();
  Value fields = Value::make_table();
  fields.set("steps", steps);
  fields.set("interval_s", chosen.interval_s());
  fields.set("stall_s", chosen.stall_s());
  fields.set("mtbf_s", chosen.mtbf_s());
  events_.write("checkpoint_interval", std::move(fields));
  log_.info(format("event=checkpoint_interval steps={} interval_s={:.0f} stall_s={:.2f} mtbf_s={:.0f}", steps,
                   chosen.interval_s(), chosen.stall_s(), chosen.mtbf_s()));
}

}  // namespace longhaul
