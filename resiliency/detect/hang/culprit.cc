#include "resiliency/detect/hang/culprit.h"

#include <algorithm>

#include "base/text/text.h"

namespace longhaul {

std::string axis_of(const std::string& communicator) {
  return communicator.substr(0, communicator.find('@'));
}

namespace {

// Stronger evidence first.
enum class Evidence {
  broken_and_awaited,  // others wait for it, and it is known to be unable to go on
  awaited,             // others wait for it
  broken,              // unable to go on; nobody is known to wait for it
  behind,              // it waits itself, or nobody says where they wait
};

struct CulpritCandidate {
  std::size_t entry = 0;
  Evidence evidence = Evidence::behind;
  int waiters = 0;
  std::int64_t step = 0;
  std::uint64_t completed = 0;
  std::int64_t idle_ms = 0;
};

std::string state_of(const RankObservation& r, const WaitGraph::Node& node, const CulpritOptions& options) {
  const std::string where = r.seen ? " in section " + r.beat.section : std::string();
  if (r.process == ProcessState::ended) return "has ended" + where;
  if (r.process == ProcessState::stopped) return "is stopped (SIGSTOP)" + where;
  if (r.process == ProcessState::traced) return "is held by a debugger" + where;
  if (node.silent)
    return format("was last heard of {:.1f} s ago, as was its host{}", 1e-3 * static_cast<double>(r.silent_ms), where);
  if (r.process == ProcessState::blocked) return "is blocked in the kernel (a disk or a file system)" + where;
  if (!r.seen) return "has shown no page yet";
  const double idle_s = 1e-3 * static_cast<double>(r.idle_ms);
  if (r.unpolled_ms >= options.unpolled_after_ms)
    return format("is stuck inside a call since {:.1f} s{}", 1e-3 * static_cast<double>(r.unpolled_ms), where);
  if (node.waits) return format("waits in {} since {:.1f} s{}", axis_of(node.communicator), idle_s, where);
  return format("stands{} since {:.1f} s", where, idle_s);
}

std::string reason_of(const RankObservation& r, const WaitGraph::Node& node, const CulpritOptions& options) {
  std::string reason = format("rank {} {}", r.rank, state_of(r, node, options));
  if (node.waiters > 0) {
    reason += format("; {} other{} for it in {}", node.waiters, node.waiters == 1 ? " waits" : "s wait",
                     axis_of(node.communicator));
    reason += node.message ? ", for a message" : format(", collective {}", node.collective);
  } else if (node.waits) {
    reason += node.end < 0 ? "; nobody is known to keep it waiting, the transport may" : "";
  } else {
    reason += "; no page says who waits for whom";
  }
  return reason;
}

// A rank that waits and keeps somebody waiting is no candidate while there is an end of that chain.
std::vector<CulpritCandidate> candidates_of(const std::vector<RankObservation>& ranks, const WaitGraph& graph) {
  std::vector<CulpritCandidate> found;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const WaitGraph::Node& node = graph.nodes[i];
    CulpritCandidate one{i, Evidence::behind, node.waiters, ranks[i].beat.step, 0, ranks[i].idle_ms};
    if (node.waiters > 0) {
      one.evidence = node.broken ? Evidence::broken_and_awaited : Evidence::awaited;
    } else if (node.broken) {
      one.evidence = Evidence::broken;
    }
    for (const BeatCommunicator& c : ranks[i].beat.communicators)
      if (c.name == node.communicator) one.completed = c.completed;
    if (one.evidence != Evidence::behind || node.end < 0) found.push_back(one);
  }
  return found;
}

bool likelier(const CulpritCandidate& a, const CulpritCandidate& b) {
  if (a.evidence != b.evidence) return a.evidence < b.evidence;
  if (a.waiters != b.waiters) return a.waiters > b.waiters;
  if (a.evidence == Evidence::behind) {
    if (a.step != b.step) return a.step < b.step;
    if (a.completed != b.completed) return a.completed < b.completed;
  }
  // Who stopped first.
  return a.idle_ms > b.idle_ms;
}

}  // namespace

std::vector<Culprit> find_culprits(const std::vector<RankObservation>& ranks, const CulpritOptions& options) {
  return find_culprits(ranks, wait_graph(ranks, options), options);
}

std::vector<Culprit> find_culprits(const std::vector<RankObservation>& ranks, const WaitGraph& graph,
                                   const CulpritOptions& options) {
  if (std::none_of(ranks.begin(), ranks.end(), [](const RankObservation& r) { return r.seen; })) return {};
  std::vector<CulpritCandidate> found = candidates_of(ranks, graph);
  std::stable_sort(found.begin(), found.end(), likelier);
  if (found.empty()) return {};
  const CulpritCandidate& first = found.front();
  // Waiting itself, or only standing there, is no evidence beside a rank that others are known to wait for.
  const bool awaited = first.evidence <= Evidence::awaited;
  std::vector<Culprit> culprits;
  for (const CulpritCandidate& one : found) {
    if (culprits.size() == options.most || (awaited && one.evidence > Evidence::broken)) break;
    const RankObservation& r = ranks[one.entry];
    const WaitGraph::Node& node = graph.nodes[one.entry];
    culprits.push_back({r.rank, r.host, r.seen ? r.beat.section : std::string(),
                        node.waiters > 0 || node.waits ? axis_of(node.communicator) : std::string(),
                        reason_of(r, node, options), false});
  }
  // Sure only where no other host has a rank that the same kind of evidence points at.
  const bool alone = std::none_of(found.begin(), found.end(), [&](const CulpritCandidate& one) {
    return one.evidence == first.evidence && one.entry != first.entry &&
           (ranks[one.entry].host != culprits.front().host || !graph.nodes[one.entry].silent);
  });
  culprits.front().certain = awaited && alone;
  return culprits;
}

}  // namespace longhaul
