#include "worker/lead/launched_ranks.h"

#include <signal.h>

#include <utility>

#include "base/text/text.h"
#include "worker/lead/monitor/rank_end.h"

namespace longhaul {

LaunchedRanks::LaunchedRanks(Origin origin, std::string attempt_key, int ranks, const RankWatch& watch,
                             const Clock& clock, Logger& log)
    : adopted_(origin == Origin::adopted),
      attempt_key_(std::move(attempt_key)),
      ranks_(ranks),
      watch_(watch),
      log_(log),
      group_(clock) {}

std::map<int, pid_t> LaunchedRanks::processes(const std::vector<JobStep>& steps) const {
  std::map<int, pid_t> started;
  for (const RankGroup::Process& process : group_.processes()) {
    int rank = process.rank;
    for (const JobStep& step : steps) {
      if (step.name == process.step) break;
      rank += step.ranks;
    }
    started[rank] = process.pid;
  }
  return started;
}

Result<std::optional<LaunchEnd>> LaunchedRanks::poll(double grace_s, const std::string& lost_host) {
  if (!adopted_) return group_.poll(grace_s);
  return end_by_pages(lost_host);
}

std::optional<LaunchEnd> LaunchedRanks::end_by_pages(const std::string& lost_host) const {
  LaunchEnd end{0, ExitStatus{0, 0}, {}};
  for (int rank = 0; rank < ranks_; ++rank) {
    const RankReport* report = watch_.rank(rank);
    if (!lost_host.empty() && watch_.host_of(rank) == lost_host) {
      if (end.ok()) end = LaunchEnd{rank, ExitStatus{-1, SIGKILL}, {}};
      continue;
    }
    if (!report || report->state != ProcessState::ended) return std::nullopt;
    if (report->beat.section == beat_finished || !end.ok()) continue;
    end = LaunchEnd{rank, end_of_rank(report->beat.section, ExitStatus{-1, SIGKILL}), {}};
  }
  return end;
}

void LaunchedRanks::stop(AgentTable* agents) {
  const std::vector<int> alive = watch_.alive();
  const bool all = static_cast<int>(alive.size()) == ranks_;
  if (!adopted_ && !(group_.by_mpirun() && all)) return group_.stop();
  group_.note_stop_request();
  signal(alive, SIGTERM, agents);
}

void LaunchedRanks::signal(const std::vector<int>& ranks, int signal_number, AgentTable* agents) const {
  std::map<std::string, std::vector<int>> remote;
  for (const int rank : ranks) {
    if (agents) {
      remote[watch_.host_of(rank)].push_back(rank);
    } else if (const Status sent = watch_.signal(rank, signal_number, attempt_key_); !sent.ok()) {
      log_.warn(
          format("event=not_signalled rank={} signal={} error='{}'", rank, signal_number, sent.error().message()));
    }
  }
  for (const auto& [host, of_host] : remote) agents->signal(host, of_host, signal_number);
}

}  // namespace longhaul
