// The wall time of one job: what its stage asks for, within what its class and the site allow. No job is without one:
// at the end of a time that nobody has asked for, Slurm kills without notice. Pure.
#pragma once

#include <string>

#include "orchestrator/site/site_config.h"

namespace longhaul {

struct JobWall {
  double wall_s = 0;
  bool chain = false;           // a stage that goes on in another job needs, or may need, more than one
  std::string decided_by = {};  // key of the site: "classes.prod.max_wall"; "": the stage's own time limit
  double longest_s = 0;         // that the class allows to so many nodes; 0: no limit
  bool too_long = false;        // asked for more, and cannot go on in another job
  bool too_many_nodes = false;  // for the class's node-minutes, at any length
};

// `asked_s`: the stage's time limit, 0: none. `nodes`: of the job, spares included.
JobWall choose_wall(const SiteConfig& site, const JobClass& job_class, int nodes, double asked_s, bool resumable);

}  // namespace longhaul
