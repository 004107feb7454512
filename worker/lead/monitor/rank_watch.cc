#include "worker/lead/monitor/rank_watch.h"

#include <algorithm>

#include "base/text/text.h"
#include "worker/launch/rank_programs.h"
#include "worker/protocol/ranks/own_process.h"
#include "worker/protocol/ranks/process_watch.h"
#include "worker/protocol/ranks/rank_look.h"

namespace longhaul {

std::vector<PageFolder> page_folders(const Launch& launch, const std::vector<JobStep>& steps) {
  if (steps.empty()) return {{beat_folder(launch), 0, launch.ranks}};
  std::vector<PageFolder> folders;
  int first = 0;
  for (const JobStep& step : steps) {
    folders.push_back({step_folder(launch.launch_dir, step.name), first, step.ranks});
    first += step.ranks;
  }
  return folders;
}

void RankWatch::order_restart(std::int64_t epoch) {
  for (auto& [rank, page] : pages_) page.order_restart(epoch);
}

void RankWatch::must_end_by(std::int64_t end_ns) {
  end_by_ns_ = end_ns;
  for (auto& [rank, page] : pages_) page.must_end_by(end_ns);
}

void RankWatch::new_launch(const Launch& launch, std::vector<PageFolder> folders, std::int64_t restart_wait_ms) {
  restart_wait_ms_ = restart_wait_ms;
  launch_ = launch;
  folders_ = std::move(folders);
  pages_.clear();
  ranks_.clear();
  pageless_.clear();
  heard_ns_.clear();
  unlisted_since_ns_.clear();
  ranks_on_.clear();
  for (int rank = 0; rank < launch.ranks; ++rank) ranks_on_[host_of(rank)].push_back(rank);
}

void RankWatch::look(const AgentTable* agents) {
  if (agents) look_at_reports(*agents);
  for (const PageFolder& folder : folders_) {
    // The first rank's page takes orders, and may lie on this node.
    const int here = agents ? (folder.first_rank == 0 ? 1 : 0) : folder.ranks;
    for (int rank = folder.first_rank; rank < folder.first_rank + here; ++rank) look_here(folder, rank);
    if (!agents) look_for_processes(folder);
  }
}

// Of ranks on this node that have no page yet.
void RankWatch::look_for_processes(const PageFolder& folder) {
  std::vector<int> without_page;
  for (int rank = 0; rank < folder.ranks; ++rank)
    if (!pages_.contains(folder.first_rank + rank)) without_page.push_back(rank);
  for (RankReport one : pageless_[folder.path].look(folder.path, without_page, clock_)) {
    one.beat.rank += folder.first_rank;
    ranks_[one.beat.rank] = std::move(one);
  }
}

// Only what is new is taken over: a lead of thousands of nodes looks twenty times a second, and most have said nothing.
void RankWatch::look_at_reports(const AgentTable& agents) {
  for (const auto& [host, agent] : agents.agents()) {
    std::int64_t& heard_ns = heard_ns_[host];
    if (agent.heard_ns == heard_ns || agent.report.launch != launch_.launch) continue;
    heard_ns = agent.heard_ns;
    for (const RankReport& report : agent.report.ranks)
      if (report.beat.rank < launch_.ranks) ranks_[report.beat.rank] = report;
    end_unlisted(host, agent);
  }
}

// An agent that follows one that was killed finds neither page nor process of ranks that have ended in between: what
// the one before had said last (blocked, say) would be believed until the patience of a teardown is over.
void RankWatch::end_unlisted(const std::string& host, const AgentState& agent) {
  const auto here = ranks_on_.find(host);
  if (here == ranks_on_.end()) return;
  for (const int rank : here->second) {
    const bool listed = std::ranges::any_of(agent.report.ranks, [&](const auto& one) { return one.beat.rank == rank; });
    const auto known = ranks_.find(rank);
    if (listed || known == ranks_.end()) {
      unlisted_since_ns_.erase(rank);
      continue;
    }
    const std::int64_t since_ns = unlisted_since_ns_.emplace(rank, agent.heard_ns).first->second;
    if (agent.heard_ns - since_ns >= unlisted_ns_) known->second.state = ProcessState::ended;
  }
}

void RankWatch::look_here(const PageFolder& folder, int rank) {
  auto page = pages_.find(rank);
  if (page == pages_.end()) {
    auto opened = HeartbeatPage::open(beat_page_path(folder.path, rank - folder.first_rank));
    if (!opened.ok()) return;
    opened->offer_restart(restart_wait_ms_);
    opened->must_end_by(end_by_ns_);
    page = pages_.emplace(rank, std::move(opened).value()).first;
  }
  RankReport report = look_at_rank([&] { return page->second.snapshot(); }, process_state, clock_);
  report.beat.rank = rank;
  ranks_[rank] = report;
}

const RankReport* RankWatch::rank(int rank) const {
  const auto found = ranks_.find(rank);
  return found == ranks_.end() ? nullptr : &found->second;
}

Status RankWatch::signal(int rank, int number, const std::string& attempt_key) const {
  const RankReport* const report = this->rank(rank);
  if (!report || report->beat.pid <= 0)
    return make_error(ErrorCode::not_found, format("no process of rank {} is known", rank));
  std::string folder;
  for (const PageFolder& one : folders_)
    if (rank >= one.first_rank && rank < one.first_rank + one.ranks) folder = one.path;
  LH_TRY(const OwnProcess process, OwnProcess::of(report->beat.pid, {attempt_key, folder}));
  return process.signal(number);
}

std::string RankWatch::host_of(int rank) const {
  if (rank < 0 || rank >= static_cast<int>(launch_.rank_host.size())) return {};
  return launch_.hosts[static_cast<std::size_t>(launch_.rank_host[static_cast<std::size_t>(rank)])];
}

HeartbeatPage* RankWatch::page(int rank) {
  const auto found = pages_.find(rank);
  return found == pages_.end() ? nullptr : &found->second;
}

std::int64_t RankWatch::newest_step() const {
  std::int64_t newest = -1;
  for (const auto& [rank, report] : ranks_) newest = std::max(newest, report.beat.step);
  return newest;
}

std::vector<int> RankWatch::alive() const {
  std::vector<int> alive;
  for (const auto& [rank, report] : ranks_)
    if (report.state != ProcessState::ended && report.state != ProcessState::none) alive.push_back(rank);
  return alive;
}

}  // namespace longhaul
