#include "worker/lead/failover/scheduler_vote.h"

#include <algorithm>

#include "worker/lead/failover/job_nodes.h"

namespace longhaul {
namespace {

constexpr std::int64_t vote_again_ms = 5'000, make_sure_ms = 1'000;

}  // namespace

bool is_majority(const std::vector<std::string>& hosts, const std::set<std::string>& heard,
                 const std::set<std::string>& gone) {
  std::size_t all = 0, voices = 0;
  for (const std::string& host : hosts) {
    if (gone.contains(host)) continue;
    ++all;
    if (heard.contains(host)) ++voices;
  }
  return 2 * voices > all;
}

std::set<std::string> gone_by_list(const std::vector<std::string>& hosts, const std::string& own,
                                   const std::vector<std::string>& list) {
  const std::set<std::string> there(list.begin(), list.end());
  std::set<std::string> gone;
  if (!there.contains(own)) return gone;
  for (const std::string& host : hosts)
    if (!there.contains(host)) gone.insert(host);
  return gone;
}

const std::set<std::string>& SchedulerVote::look(const std::vector<std::string>& hosts) {
  const std::int64_t now = clock_.monotonic_ns();
  if (now < next_ns_) return gone_;
  const auto list = ask_();
  if (list.ok()) {
    const std::set<std::string> lacking = gone_by_list(hosts, own_, *list);
    std::set<std::string> sure, fresh;
    for (const std::string& host : lacking)
      (gone_.contains(host) || doubtful_.contains(host) ? sure : fresh).insert(host);
    // An answer that knows nothing of this node says nothing of the others.
    const bool counts = std::find(list->begin(), list->end(), own_) != list->end();
    if (counts) gone_ = std::move(sure), doubtful_ = std::move(fresh);
  }
  const bool make_sure = list.ok() && !doubtful_.empty();
  next_ns_ = clock_.monotonic_ns() + (make_sure ? make_sure_ms : vote_again_ms) * 1'000'000;
  return gone_;
}

void SchedulerVote::note_heard(const std::set<std::string>& hosts) {
  for (const std::string& host : hosts) gone_.erase(host), doubtful_.erase(host);
}

SchedulerVote::Ask ask_for_nodes_of(const std::string& job) {
  return [job]() -> Result<std::vector<std::string>> {
    if (job.empty()) return make_error(ErrorCode::unavailable, "the job is none of a scheduler");
    return job_nodes_now(job);
  };
}

}  // namespace longhaul
