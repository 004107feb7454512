#include "worker/agent/rank_pages.h"

#include "base/files.h"
#include "base/text.h"

namespace longhaul {

void RankPages::watch(int launch, std::string folder, std::vector<int> ranks, std::int64_t restart_wait_ms) {
  restart_wait_ms_ = restart_wait_ms;
  if (folder != folder_) leave();
  pages_.clear();
  processes_.clear();
  launch_ = launch, folder_ = std::move(folder), ranks_ = std::move(ranks);
}

void RankPages::must_end_by(std::int64_t wall_ms) {
  end_by_ms_ = wall_ms;
  for (auto& [rank, page] : pages_) page.must_end_by(wall_ms);
}

void RankPages::leave() {
  pages_.clear();
  processes_.clear();
  ranks_.clear();
  if (starts_with(folder_, node_beat_prefix)) (void)remove_tree(folder_).ok();
  folder_.clear();
}

HeartbeatPage* RankPages::page(int rank) {
  if (const auto known = pages_.find(rank); known != pages_.end()) return &known->second;
  auto opened = HeartbeatPage::open(beat_page_path(folder_, rank));
  if (!opened.ok()) return nullptr;  // not there yet
  opened->offer_restart(restart_wait_ms_);
  opened->must_end_by(end_by_ms_);
  return &pages_.emplace(rank, std::move(opened).value()).first->second;
}

std::vector<RankReport> RankPages::look(const Clock& clock) {
  std::vector<RankReport> reports;
  std::vector<int> without_page;
  for (const int rank : ranks_) {
    HeartbeatPage* const found = page(rank);
    if (!found) {
      without_page.push_back(rank);
      continue;
    }
    RankReport report;
    report.beat = found->snapshot();
    report.beat.rank = rank;
    if (report.beat.changed_ns > 0)
      report.idle_ms = std::max<std::int64_t>(0, (clock.monotonic_ns() - report.beat.changed_ns) / 1'000'000);
    report.state = processes_[rank].look(report.beat.pid);
    reports.push_back(std::move(report));
  }
  for (const RankReport& one : pageless_.look(folder_, without_page, clock)) reports.push_back(one);
  return reports;
}

void RankPages::add_ends(std::vector<pollfd>& to) const {
  for (const auto& [rank, process] : processes_)
    if (process.end_descriptor() >= 0) to.push_back({process.end_descriptor(), POLLIN, 0});
}

bool RankPages::ends_are_told() const {
  bool told = false;
  for (const auto& [rank, process] : processes_) {
    if (process.alive() && process.end_descriptor() < 0) return false;
    told |= process.alive();
  }
  return told;
}

}  // namespace longhaul
