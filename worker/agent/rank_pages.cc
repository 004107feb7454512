#include "worker/agent/rank_pages.h"

#include <algorithm>

#include "base/files/files.h"
#include "base/text/text.h"
#include "worker/protocol/ranks/rank_look.h"

namespace longhaul {
namespace {
constexpr std::int64_t ask_again_ms = 1'000;
}

void RankPages::watch(int launch, std::string folder, std::vector<int> ranks, std::int64_t restart_wait_ms) {
  restart_wait_ms_ = restart_wait_ms;
  if (folder != folder_) leave();
  pages_.clear();
  processes_.clear();
  owned_.clear();
  launch_ = launch, folder_ = std::move(folder), ranks_ = std::move(ranks);
}

void RankPages::must_end_by(std::int64_t end_ns) {
  end_by_ns_ = end_ns;
  for (auto& [rank, page] : pages_) page.must_end_by(end_ns);
}

void RankPages::leave() {
  pages_.clear();
  processes_.clear();
  owned_.clear();
  ranks_.clear();
  if (starts_with(folder_, node_beat_prefix)) (void)remove_tree(folder_).ok();
  folder_.clear();
}

HeartbeatPage* RankPages::page(int rank) {
  if (const auto known = pages_.find(rank); known != pages_.end()) return &known->second;
  auto opened = HeartbeatPage::open(beat_page_path(folder_, rank));
  if (!opened.ok()) return nullptr;  // not there yet
  opened->offer_restart(restart_wait_ms_);
  opened->must_end_by(end_by_ns_);
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
    RankReport report = look_at_rank([&] { return found->snapshot(); },
                                     [&](std::int64_t pid) { return processes_[rank].look(pid); }, clock);
    report.beat.rank = rank;
    reports.push_back(std::move(report));
  }
  for (const RankReport& one : pageless_.look(folder_, without_page, clock)) reports.push_back(one);
  for (const RankReport& report : reports) note_process(report, clock);
  return reports;
}

void RankPages::note_process(const RankReport& report, const Clock& clock) {
  if (report.state == ProcessState::none || report.state == ProcessState::ended) return;
  Owned& known = owned_[report.beat.rank];
  const bool same = known.pid == report.beat.pid;
  if (same && (known.process.ok() || clock.monotonic_ns() < known.next_ns)) return;
  known = {report.beat.pid, clock.monotonic_ns() + ask_again_ms * 1'000'000,
           OwnProcess::of(report.beat.pid, {attempt_key_, folder_})};
}

Status RankPages::signal(int rank, int number) const {
  const auto known = owned_.find(rank);
  if (known == owned_.end()) return make_error(ErrorCode::not_found, format("no process of rank {} is known", rank));
  if (!known->second.process.ok()) return known->second.process.error();
  return known->second.process->signal(number);
}

pid_t RankPages::own_pid(int rank) const {
  const auto known = owned_.find(rank);
  return known == owned_.end() || !known->second.process.ok() ? 0 : std::max(0, known->second.process->pid());
}

void RankPages::add_ends(std::vector<pollfd>& to) const {
  for (const auto& [rank, process] : processes_)
    if (process.end_descriptor() >= 0) to.push_back({process.end_descriptor(), POLLIN, 0});
}

bool RankPages::ends_are_reported() const {
  bool reported = false;
  for (const auto& [rank, process] : processes_) {
    if (process.alive() && process.end_descriptor() < 0) return false;
    reported |= process.alive();
  }
  return reported;
}

}  // namespace longhaul
