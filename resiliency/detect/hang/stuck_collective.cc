#include "resiliency/detect/hang/stuck_collective.h"

#include <set>

#include "base/text/text.h"

namespace longhaul {

StuckCollective find_stuck_collective(const std::vector<RankObservation>& ranks, const WaitGraph& graph,
                                      const CulpritOptions& options) {
  StuckCollective stuck;
  std::set<std::string> axes;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const RankObservation& rank = ranks[i];
    const WaitGraph::Node& node = graph.nodes[i];
    if (!rank.seen || node.silent || rank.process != ProcessState::running) return {};
    const bool inside_a_call = rank.beat.waits_in >= 0 && rank.unpolled_ms >= options.unpolled_after_ms;
    if (!node.waits && !inside_a_call) return {};
    if (inside_a_call && stuck.out_of_reach < 0) stuck.out_of_reach = rank.rank;
    const auto in = static_cast<std::size_t>(rank.beat.waits_in);
    const bool by_page = rank.beat.waits_in >= 0 && in < rank.beat.communicators.size();
    axes.insert(axis_of(by_page ? rank.beat.communicators[in].name : node.communicator));
  }
  stuck.found = !ranks.empty();
  stuck.where = join(std::vector<std::string>(axes.begin(), axes.end()), ", ");
  return stuck;
}

}  // namespace longhaul
