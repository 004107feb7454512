#include "resiliency/detect/hang/desync.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/text/text.h"

namespace longhaul {
namespace {

struct DesyncGroup {
  std::vector<std::size_t> members, waiters;
  std::map<std::uint64_t, std::vector<int>> ranks_by_count;  // of collectives started
};

std::string ranks_text(const std::vector<int>& ranks) {
  std::vector<std::string> names;
  for (const int rank : ranks) {
    if (names.size() == 8) {
      names.push_back(format("{} more", ranks.size() - 8));
      break;
    }
    names.push_back(std::to_string(rank));
  }
  return (ranks.size() == 1 ? "rank " : "ranks ") + join(names, ", ");
}

// Every member waits in this very communicator, and they have not come equally often.
void add_counts(const std::string& name, const DesyncGroup& group, std::vector<Desync>& found) {
  if (group.waiters.size() != group.members.size() || group.ranks_by_count.size() < 2) return;
  const auto& [fewest, behind] = *group.ranks_by_count.begin();
  const auto& [most, ahead] = *group.ranks_by_count.rbegin();
  found.push_back({Desync::Kind::counts,
                   {axis_of(name)},
                   behind,
                   format("all {} members wait in {}, but {} started {} collectives of it and {} {}",
                          group.members.size(), axis_of(name), ranks_text(behind), fewest, ranks_text(ahead), most)});
}

}  // namespace

std::vector<Desync> find_desyncs(const std::vector<RankObservation>& ranks, const CulpritOptions& options) {
  const WaitGraph graph = wait_graph(ranks, options);
  std::map<std::string, DesyncGroup> groups;
  Desync order{Desync::Kind::order, {}, {}, {}};
  std::set<std::string> in_circle;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const WaitGraph::Node& node = graph.nodes[i];
    if (node.broken || !node.waits || node.end >= 0) {
      if (node.broken) return {};
    } else if (ranks[i].beat.waits_for < 0) {
      groups[node.communicator].waiters.push_back(i);
      in_circle.insert(node.communicator);
      order.behind.push_back(ranks[i].rank);
    }
    for (const BeatCommunicator& c : ranks[i].beat.communicators) {
      groups[c.name].members.push_back(i);
      groups[c.name].ranks_by_count[c.enqueued].push_back(ranks[i].rank);
    }
  }
  std::vector<Desync> found;
  for (const auto& [name, group] : groups)
    if (!group.waiters.empty()) add_counts(name, group, found);
  if (!found.empty()) return found;
  // A circle: in each of these communicators somebody waits for one who waits in another of them.
  std::erase_if(in_circle, [&](const std::string& name) {
    const DesyncGroup& group = groups[name];
    return group.ranks_by_count.size() < 2 || group.waiters.size() == group.members.size();
  });
  if (in_circle.size() < 2) return {};
  for (const std::string& name : in_circle) order.communicators.push_back(axis_of(name));
  order.text = format("{} wait for each other in a circle: they started the collectives of {} in another order",
                      ranks_text(order.behind), join(order.communicators, " and "));
  return {order};
}

}  // namespace longhaul
