#include "worker/lead/order_book.h"

#include <sys/stat.h>

#include <cmath>

#include "base/text.h"

namespace longhaul {
namespace {

constexpr std::int64_t look_interval_ns = 1'000'000'000;

std::int64_t changed_ns(const std::string& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) return -1;
  return static_cast<std::int64_t>(info.st_mtim.tv_sec) * 1'000'000'000 + info.st_mtim.tv_nsec;
}

}  // namespace

void OrderBook::look(HeartbeatPage* first_rank) {
  if (!first_rank) return;
  note_outcomes(*first_rank);
  const std::int64_t now = clock_.monotonic_ns();
  if (now < next_look_ns_) return;
  next_look_ns_ = now + look_interval_ns;
  const std::int64_t changed = changed_ns(orders_folder(stage_dir_));
  if (changed < 0 || changed == folder_changed_ns_) return;  // nothing was ever ordered, or nothing new
  for (const Order& order : read_orders(stage_dir_))
    if (!handed_.count(order.id)) hand_over(order, *first_rank);
  folder_changed_ns_ = changed;
}

void OrderBook::hand_over(const Order& order, HeartbeatPage& page) {
  const bool told = read_order_outcome(stage_dir_, order.id).ok();
  Handed handed{order, 0, told};
  const auto count = static_cast<std::int64_t>(std::llround(order.value));
  if (order.what == "checkpoint") {
    if (!told) handed.number = page.order_checkpoint();  // done in an earlier launch: once is enough
  } else if (order.what == "stop_after" && count >= 1) {
    handed.number = page.order_stop_after(count);
  } else if (order.what == "checkpoint_interval" && count >= 1) {
    handed.number = page.order_checkpoint_interval(count);
  } else if (order.what == "lr" && order.value > 0) {
    handed.number = page.order_learning_rate(order.value);
  } else if (!told) {
    tell(order, {false, "refused: this version's lead knows no order '" + order.text() + "'"});
    handed.told = true;
  }
  handed_.emplace(order.id, handed);
}

void OrderBook::note_outcomes(const HeartbeatPage& page) {
  const std::int64_t obeyed = page.orders_obeyed();
  for (auto& [id, handed] : handed_) {
    if (handed.told || handed.number == 0 || obeyed < handed.number) continue;
    tell(handed.order, {true, format("done at step {}", page.snapshot().step)});
    handed.told = true;
  }
}

void OrderBook::tell(const Order& order, const OrderOutcome& outcome) {
  (void)write_order_outcome(stage_dir_, order.id, outcome)
      .ok();  // on a full disk the event below may still get through
  Value fields = Value::make_table();
  fields.set("id", order.id);
  fields.set("order", order.text());
  fields.set("done", outcome.done);
  fields.set("text", outcome.text);
  events_.write("order", std::move(fields));
}

}  // namespace longhaul
