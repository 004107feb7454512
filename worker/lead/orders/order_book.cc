#include "worker/lead/orders/order_book.h"

#include <sys/stat.h>

#include <algorithm>

#include "base/text/text.h"
#include "worker/protocol/ranks/page_orders.h"

namespace longhaul {
namespace {

constexpr std::int64_t order_look_interval_ns = 1'000'000'000;
// Two changes may have one time: of a tick of the kernel, of a second on some servers, of two on others. So long after
// a time was first seen the folder is read again, whatever its time says.
constexpr std::int64_t one_time_lasts_ns = 3'000'000'000;

std::int64_t changed_ns(const std::string& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) return -1;
  return static_cast<std::int64_t>(info.st_mtim.tv_sec) * 1'000'000'000 + info.st_mtim.tv_nsec;
}

}  // namespace

void OrderBook::look(OrderTaker& first_rank) {
  const bool ready = first_rank.ready();
  if (ready) note_outcomes(first_rank);
  const std::int64_t now = clock_.monotonic_ns();
  if (now < next_look_ns_ && !(ready && page_wanted_)) return;
  next_look_ns_ = now + order_look_interval_ns;
  if (ready)
    for (const auto& [id, handed] : handed_)
      if (handed.taken && !handed.answered) first_rank.take(handed.order);
  const std::int64_t changed = changed_ns(orders_folder(stage_dir_));
  if (changed < 0) return;  // nothing was ever ordered
  if (changed == folder_changed_ns_ && !page_wanted_ && now - changed_at_ns_ > one_time_lasts_ns)
    return;  // nothing new
  if (changed != folder_changed_ns_) folder_changed_ns_ = changed, changed_at_ns_ = now;
  page_wanted_ = false;
  for (const Order& order : read_orders(stage_dir_)) {
    if (handed_.count(order.id)) continue;
    if (order.what == "stacks" || order.what == "fault")
      handed_.emplace(order.id, Handed{order, read_order_outcome(stage_dir_, order.id).ok(), false});
    else if (ready)
      hand_over(order, first_rank);
    else
      page_wanted_ = true;
  }
}

bool OrderBook::ordered(const std::string& what) const {
  return std::any_of(handed_.begin(), handed_.end(),
                     [&](const auto& entry) { return entry.second.order.what == what; });
}

bool OrderBook::stacks_wanted() const {
  return std::any_of(handed_.begin(), handed_.end(), [](const auto& entry) { return entry.second.wants_stacks(); });
}

void OrderBook::report_stacks(const OrderOutcome& outcome) {
  for (auto& [id, handed] : handed_) {
    if (!handed.wants_stacks()) continue;
    report_outcome(handed.order, outcome);
    handed.answered = true;
  }
}

std::vector<Order> OrderBook::take_faults() {
  std::vector<Order> faults;
  for (auto& [id, handed] : handed_) {
    if (handed.order.what != "fault" || handed.answered) continue;
    handed.answered = true;
    faults.push_back(handed.order);
  }
  return faults;
}

void OrderBook::hand_over(const Order& order, OrderTaker& first_rank) {
  Handed handed{order, read_order_outcome(stage_dir_, order.id).ok(), false};
  if (!PageOrders::knows(order.what, order.value)) {
    if (!handed.answered)
      report_outcome(order, {false, "refused: this version's lead knows no order '" + order.text() + "'"});
    handed.answered = true;
  } else if (order.what != "checkpoint" || !handed.answered) {  // saved in an earlier launch: once is enough
    first_rank.take(order);
    handed.taken = true;
  }
  handed_.emplace(order.id, handed);
}

void OrderBook::note_outcomes(const OrderTaker& first_rank) {
  for (const std::string& id : first_rank.done()) {
    const auto found = handed_.find(id);
    if (found == handed_.end() || found->second.answered || !found->second.taken) continue;
    report_outcome(found->second.order, {true, format("done at step {}", first_rank.step())});
    found->second.answered = true;
  }
}

void OrderBook::report_outcome(const Order& order, const OrderOutcome& outcome) {
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
