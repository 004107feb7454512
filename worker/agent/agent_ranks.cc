#include "worker/agent/agent_ranks.h"

#include <signal.h>

#include <algorithm>
#include <utility>

#include "base/text/text.h"

namespace longhaul {

void AgentRanks::signal_rank(int rank, int number) {
  if (const Status sent = pages_.signal(rank, number); !sent.ok())
    log_.warn(format("event=not_signalled rank={} signal={} error='{}'", rank, number, sent.error().message()));
}

// What the page has no field for the lead has refused before.
void AgentRanks::write_order(const AgentOrder& order) {
  HeartbeatPage* const page = order.ranks.empty() ? nullptr : pages_.page(order.ranks.front());
  if (!page) return;  // sent again
  ordered_rank_ = order.ranks.front();
  (void)orders_.write(order.id, order.what, order.value, *page);
}

std::vector<std::string> AgentRanks::orders_done() {
  HeartbeatPage* const page = orders_.empty() ? nullptr : pages_.page(ordered_rank_);
  return page ? orders_.done(*page) : std::vector<std::string>();
}

// A file for each rank, in the folder that the lead shares with us.
void AgentRanks::dump_stacks(const AgentOrder& order) {
  std::vector<StackTarget> targets;
  for (const int rank : order.ranks) targets.push_back({rank, pages_.own_pid(rank)});
  if (const Status begun = stacks_.begin(order.folder, targets); !begun.ok())
    log_.warn("event=no_stacks error='" + begun.error().message() + "'");
}

// Of a launch that this node has outlived: the lead took it for lost, and went on without it.
void AgentRanks::end_forgotten_ranks() {
  for (const RankReport& rank : pages_.look(clock_)) {
    if (rank.beat.pid <= 0 || rank.state == ProcessState::ended || rank.state == ProcessState::none) continue;
    log_.warn(format("event=forgotten_rank launch={} rank={} pid={} next=kill", pages_.launch(), rank.beat.rank,
                     rank.beat.pid));
    signal_rank(rank.beat.rank, SIGKILL);
  }
}

// By this host's own clock, from when the order came. What was on its way for long is counted as later than it is.
std::int64_t AgentRanks::end_by_ns(const AgentOrder& order) const {
  return order.left_ms > 0 ? clock_.monotonic_ns() + order.left_ms * 1'000'000 : 0;
}

void AgentRanks::watch(const AgentOrder& order) {
  if (order.launch > pages_.launch()) end_forgotten_ranks();
  if (order.folder != beat_folder_) sockets_.close(), orders_.clear();
  beat_folder_ = order.folder;
  // Before anything is looked for or made in it. Ranks refuse a folder that is not ours as well.
  auto held = order.ranks.empty() ? Result<HeldFolder>(HeldFolder()) : hold_beat_folder(order.folder);
  if (!held.ok()) log_.error("event=beat_folder_refused error='" + held.error().message() + "'");
  beat_folder_held_ = held.ok() ? std::move(*held) : HeldFolder();
  pages_.watch(order.launch, order.folder, order.ranks, order.restart_wait_ms);
  pages_.must_end_by(end_by_ns(order));
  store_.watch(order.launch, order.ranks.empty() ? std::string() : order.store_dir);
  if (const Status opened = sockets_.open(order.folder, order.ranks); !opened.ok())
    log_.warn("event=no_beat_sockets error='" + opened.error().message() + "' next=watch_pages_alone");
}

void AgentRanks::leave() {
  sockets_.close();
  store_.leave();
  pages_.leave();
}

void AgentRanks::obey(const AgentOrder& order) {
  if (order.launch != pages_.launch()) return;  // of ranks that are no more
  switch (order.kind) {
    case AgentOrder::Kind::stacks: return dump_stacks(order);
    case AgentOrder::Kind::end_by: return pages_.must_end_by(end_by_ns(order));
    case AgentOrder::Kind::page: return write_order(order);
    case AgentOrder::Kind::restart: return restart(order);
    default: signal_each(order.ranks, order.signal);
  }
}

void AgentRanks::restart(const AgentOrder& order) {
  store_.new_epoch(order.epoch);
  for (const int rank : order.ranks)
    if (HeartbeatPage* const page = pages_.page(rank)) page->order_restart(order.epoch);
  log_.info(format("event=restart_ordered epoch={}", order.epoch));
}

void AgentRanks::signal_each(const std::vector<int>& ranks, int number) {
  for (const RankReport& rank : pages_.look(clock_))
    if (std::find(ranks.begin(), ranks.end(), rank.beat.rank) != ranks.end() && rank.beat.pid > 0 &&
        rank.state != ProcessState::ended) {
      log_.info(format("event=signal rank={} pid={} signal={}", rank.beat.rank, rank.beat.pid, number));
      signal_rank(rank.beat.rank, number);
    }
}

void AgentRanks::freeze() {
  for (const RankReport& rank : pages_.look(clock_))
    if (rank.beat.pid > 0 && rank.state != ProcessState::ended) signal_rank(rank.beat.rank, SIGSTOP);
}

}  // namespace longhaul
