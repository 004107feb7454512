// From pages to the graph of who waits for whom (culprit.h).
//
// Members of a communicator that wait in it wait for the same ranks, so the group is a node of its own: with n members
// there are 2n edges instead of n * n.
#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "resiliency/detect/hang/culprit.h"

namespace longhaul {
namespace {

struct WaitGroup {
  std::vector<std::pair<int, int>> members;  // entry, index of the communicator on its page
  std::vector<int> waiters;
  std::vector<int> blamed;
  std::uint64_t collective = 0;
};

class WaitGraphBuilder {
 public:
  WaitGraphBuilder(const std::vector<RankObservation>& ranks, const CulpritOptions& options)
      : ranks_(ranks), options_(options), waits_in_(ranks.size(), nullptr), waits_for_(ranks.size(), -1) {
    graph_.nodes.resize(ranks.size());
  }

  WaitGraph build() {
    find_broken();
    find_waiting();
    for (auto& [name, group] : groups_) blame(group);
    follow_chains();
    return std::move(graph_);
  }

 private:
  const BeatCommunicator& of(const std::pair<int, int>& member) const {
    return ranks_[static_cast<std::size_t>(member.first)].beat.communicators[static_cast<std::size_t>(member.second)];
  }
  WaitGraph::Node& node(int entry) { return graph_.nodes[static_cast<std::size_t>(entry)]; }

  void find_broken() {
    const auto is_silent = [&](const RankObservation& r) { return r.silent_ms >= options_.silent_after_ms; };
    const bool heard =
        std::any_of(ranks_.begin(), ranks_.end(), [&](const RankObservation& r) { return !is_silent(r); });
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      const RankObservation& r = ranks_[i];
      graph_.nodes[i].silent = heard && is_silent(r);
      graph_.nodes[i].broken = graph_.nodes[i].silent || !r.seen || r.process == ProcessState::ended ||
                               is_held(r.process) || r.process == ProcessState::blocked ||
                               r.unpolled_ms >= options_.unpolled_after_ms;
    }
  }

  // In which communicator a rank waits; -1: in none. A program that does not say waits where it has started more
  // collectives than have ended.
  static int waiting_in(const BeatSnapshot& beat) {
    if (beat.waits_in != beat_waits_unknown) return beat.waits_in;
    for (std::size_t c = 0; c < beat.communicators.size(); ++c)
      if (beat.communicators[c].enqueued > beat.communicators[c].completed) return static_cast<int>(c);
    return -1;
  }

  void find_waiting() {
    std::unordered_map<int, int> entry_of;
    for (std::size_t i = 0; i < ranks_.size(); ++i) entry_of[ranks_[i].rank] = static_cast<int>(i);
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      const BeatSnapshot& beat = ranks_[i].beat;
      const int entry = static_cast<int>(i);
      const int in = graph_.nodes[i].broken ? -1 : waiting_in(beat);
      graph_.nodes[i].waits = in >= 0;
      for (std::size_t c = 0; c < beat.communicators.size(); ++c) {
        WaitGroup& group = groups_[beat.communicators[c].name];
        group.members.emplace_back(entry, static_cast<int>(c));
        if (static_cast<int>(c) != in) continue;
        waits_in_[i] = &group;
        graph_.nodes[i].communicator = beat.communicators[c].name;
        const auto peer = entry_of.find(beat.waits_in >= 0 ? beat.waits_for : -1);
        if (peer != entry_of.end()) {
          waits_for_[i] = peer->second;
        } else {
          group.waiters.push_back(entry);
        }
      }
    }
  }

  void blame(WaitGroup& group) {
    if (group.waiters.empty()) return;
    std::uint64_t front = 0, least = UINT64_MAX, waiters_completed = UINT64_MAX;
    const auto waits_here = [&](const std::pair<int, int>& m) {
      const auto i = static_cast<std::size_t>(m.first);
      return waits_in_[i] == &group && waits_for_[i] < 0;
    };
    for (const auto& member : group.members) {
      least = std::min(least, of(member).enqueued);
      if (!waits_here(member)) continue;
      front = std::max(front, of(member).enqueued);
      waiters_completed = std::min(waiters_completed, of(member).completed);
    }
    group.collective = waiters_completed;
    for (const auto& member : group.members) {
      // Who has not come; if all have, who came and does nothing about it, and has not gone on either.
      const bool absent = of(member).enqueued == least;
      const bool idle = !waits_here(member) && of(member).completed <= waiters_completed;
      if (least < front ? absent : idle) group.blamed.push_back(member.first);
    }
  }

  // From every node where a chain may end, backwards along the waits.
  void follow_chains() {
    const std::size_t n = ranks_.size();
    std::vector<std::vector<WaitGroup*>> blamed_by(n);
    std::vector<std::vector<int>> awaited_by(n);
    for (auto& [name, group] : groups_)
      for (const int entry : group.blamed) blamed_by[static_cast<std::size_t>(entry)].push_back(&group);
    for (std::size_t i = 0; i < n; ++i)
      if (waits_for_[i] >= 0) awaited_by[static_cast<std::size_t>(waits_for_[i])].push_back(static_cast<int>(i));

    std::vector<int> ends;
    for (std::size_t i = 0; i < n; ++i)
      if (!graph_.nodes[i].waits && (!blamed_by[i].empty() || !awaited_by[i].empty()))
        ends.push_back(static_cast<int>(i));
    std::stable_sort(ends.begin(), ends.end(), [&](int a, int b) { return node(a).broken > node(b).broken; });
    if (ends.size() > ends_most) ends.resize(ends_most);

    std::vector<int> reached(n, -1);
    for (const int end : ends) {
      std::unordered_map<const WaitGroup*, bool> through;
      std::vector<int> open{end};
      reached[static_cast<std::size_t>(end)] = end;
      const auto visit = [&](int waiter, int from, const std::string& communicator, std::uint64_t collective,
                             bool message) {
        if (reached[static_cast<std::size_t>(waiter)] == end) return;
        reached[static_cast<std::size_t>(waiter)] = end;
        if (node(waiter).end < 0) node(waiter).end = end;
        if (from == end && node(end).communicator.empty())
          node(end).communicator = communicator, node(end).collective = collective, node(end).message = message;
        ++node(end).waiters;
        open.push_back(waiter);
      };
      while (!open.empty()) {
        const int at = open.back();
        open.pop_back();
        for (WaitGroup* group : blamed_by[static_cast<std::size_t>(at)]) {
          if (std::exchange(through[group], true)) continue;
          for (const int waiter : group->waiters)
            visit(waiter, at, node(waiter).communicator, group->collective, false);
        }
        for (const int waiter : awaited_by[static_cast<std::size_t>(at)])
          visit(waiter, at, node(waiter).communicator, 0, true);
      }
    }
  }

  // Where thousands compute at once nobody hangs; following each of their chains would cost seconds.
  static constexpr std::size_t ends_most = 256;

  const std::vector<RankObservation>& ranks_;
  const CulpritOptions& options_;
  std::vector<WaitGroup*> waits_in_;  // null: does not wait
  std::vector<int> waits_for_;        // entry of the sender; -1: a collective
  std::unordered_map<std::string_view, WaitGroup> groups_;
  WaitGraph graph_;
};

}  // namespace

WaitGraph wait_graph(const std::vector<RankObservation>& ranks, const CulpritOptions& options) {
  return WaitGraphBuilder(ranks, options).build();
}

}  // namespace longhaul
