#include "worker/lead/order_book.h"

#include <sys/stat.h>

#include <algorithm>
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
  if (first_rank) note_outcomes(*first_rank);
  const std::int64_t now = clock_.monotonic_ns();
  if (now < next_look_ns_ && !(first_rank && page_wanted_)) return;
  next_look_ns_ = now + look_interval_ns;
  const std::int64_t changed = changed_ns(orders_folder(stage_dir_));
  if (changed < 0 || changed == folder_changed_ns_) return;  // nothing was ever ordered, or nothing new
  page_wanted_ = false;
  for (const Order& order : read_orders(stage_dir_)) {
    if (handed_.count(order.id)) continue;
    if (order.what == "stacks" || order.what == "fault")
      handed_.emplace(order.id, Handed{order, 0, read_order_outcome(stage_dir_, order.id).ok()});
    else if (first_rank)
      hand_over(order, *first_rank);
    else
      page_wanted_ = true;
  }
  if (!page_wanted_) folder_changed_ns_ = changed;
}

bool OrderBook::stacks_wanted() const {
  return std::any_of(handed_.begin(), handed_.end(), [](const auto& entry) { return entry.second.wants_stacks(); });
}

void OrderBook::tell_stacks(const OrderOutcome& outcome) {
  for (auto& [id, handed] : handed_) {
    if (!handed.wants_stacks()) continue;
    tell(handed.order, outcome);
    handed.told = true;
  }
}

std::vector<Order> OrderBook::take_faults() {
  std::vector<Order> faults;
  for (auto& [id, handed] : handed_) {
    if (handed.order.what != "fault" || handed.told) continue;
    handed.told = true;
    faults.push_back(handed.order);
  }
  return faults;
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
