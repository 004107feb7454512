#include "orchestrator/job/request/job_wall.h"

#include <algorithm>
#include <cmath>

namespace longhaul {
namespace {

// The longest job of the class with so many nodes, and what says so.
void find_longest(const JobClass& job_class, int nodes, JobWall& wall, std::string& path) {
  wall.longest_s = job_class.max_wall.value;
  path = "classes." + job_class.name + ".max_wall";
  if (job_class.max_node_minutes <= 0) return;
  const double by_nodes = 60 * std::floor(job_class.max_node_minutes / std::max(1, nodes));
  wall.too_many_nodes = by_nodes <= 0;
  if (wall.too_many_nodes || (wall.longest_s > 0 && wall.longest_s <= by_nodes)) return;
  wall.longest_s = by_nodes;
  path = "classes." + job_class.name + ".max_node_minutes";
}

}  // namespace

JobWall choose_wall(const SiteConfig& site, const JobClass& job_class, int nodes, double asked_s, bool resumable) {
  JobWall wall;
  std::string longest_path;
  find_longest(job_class, nodes, wall, longest_path);
  const double longest = wall.longest_s, usual = job_class.default_wall.value;
  if (asked_s == 0 && (usual > 0 || longest > 0)) {
    const bool takes_usual = usual > 0 && (longest == 0 || usual <= longest);
    wall.wall_s = takes_usual ? usual : longest;
    wall.decided_by = takes_usual ? "classes." + job_class.name + ".default_wall" : longest_path;
    wall.chain = resumable;
  } else if (longest == 0 && (asked_s == 0 || (resumable && asked_s > site.default_wall.value))) {
    wall.wall_s = site.default_wall.value;
    wall.decided_by = "default_wall";
    wall.chain = resumable;
  } else if (longest > 0 && asked_s > longest) {
    wall.wall_s = longest;
    wall.decided_by = longest_path;
    wall.chain = resumable;
    wall.too_long = !resumable;
  } else {
    wall.wall_s = asked_s;
  }
  return wall;
}

}  // namespace longhaul
